#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/tensor.h"
#include "bytetape/distributed/group.h"
#include "bytetape/nn/module.h"

/// \file
/// Functions for DataParallel and Sharded.
namespace bytetape::dist {

/// Attributes work in backward to no module, and to the given op.
class OutsideModules {
 public:
  [[nodiscard]] explicit OutsideModules(std::string_view op)
      : scope_(memory::ambient.scope.with(0, memory::intern(op), memory::ambient.scope.phase)) {}

 private:
  const memory::ScopeGuard scope_;
};

/// The alignment of parameters and gradients within a row, in bytes, for kernels that load vectors.
inline constexpr std::int64_t row_alignment = 128;

/// Returns a new number, from 1, that all ranks of the group get if they call it in the same order; 0 in a prediction,
/// which one rank may make alone.
std::uint64_t next_number(const Group& group, const nn::Module& module);
/// Throws DistributedError if parameters or buffers differ over ranks in name, shape, strides, dtype or requires_grad.
void check_alike(const nn::Module& module, const Group& group);

/// The stream of exchanges beside backward, and that of the last ones, for which an optimizer waits last.
inline Stream stream_of_exchanges() { return Stream(Stream::count - 1); }
inline Stream stream_of_late_exchanges() { return Stream(Stream::count - 2); }
/// Makes stream_of_exchanges() wait for the last exchanges of an earlier backward. NCCL needs the exchanges of a GPU in
/// one order.
inline void order_exchanges(Device device) {
  detail::order(device, stream_of_late_exchanges().number(), stream_of_exchanges().number());
}

/// Makes ranks agree on faults (core/device/fault.h) of the work before the first exchange of a backward, so that all
/// skip the same step. A GPU's fault is known on the device only. Does nothing on devices that throw faults at once.
class RankFaults {
 public:
  /// The work is attributed to the op `name`.
  explicit RankFaults(std::string_view name) : name_(name) {}
  /// Call before the exchanges of a backward, on its stream.
  void begin(Device device);
  /// Exchanges on stream `beside` whether a fault is pending on the thread's stream. Call before the first exchange.
  void exchange(const Group& group, Stream beside, std::uint64_t tag);
  /// Makes a fault of another rank one of this rank. Call before a step.
  void take();

 private:
  const std::string_view name_;
  Tensor flag_;
  std::optional<Stream> exchanged_on_;  // the stream whose faults were exchanged, until take()
};

/// Copies the first tensor of each pair to the second, all in one launch for each dtype. Sources may be 16-bit, for
/// destinations in f32.
void copy_gradients(const std::vector<std::pair<Tensor, Tensor>>& moves);

}  // namespace bytetape::dist
