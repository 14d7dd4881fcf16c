#pragma once
#include <cstdint>
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

/// Makes ranks agree on faults (core/device/fault.h), so that all skip the same step. A GPU's fault is known on the
/// device only. Does nothing on devices that throw faults at once.
class RankFaults {
 public:
  /// Call before the exchanges of a backward, on the stream of backward.
  void begin() {
    if (flag_.defined()) flag_.write();  // waits for the last use here, where exchange() would wait for what came after
  }
  /// Exchanges what was found so far: by forward, as backward reads no other indices. Call it before the first
  /// exchange, on the stream of backward. The exchange runs on `beside`.
  void exchange(const Group& group, Device device, Stream beside, std::uint64_t tag);
  /// Makes a fault of another rank one of this rank. Call before a step, on the stream of backward.
  void take();

 private:
  Tensor flag_;
  bool is_exchanged_ = false;
};

/// Copies the first tensor of each pair to the second, all in one launch for each dtype. Sources may be 16-bit, for
/// destinations in f32.
void copy_gradients(const std::vector<std::pair<Tensor, Tensor>>& moves);

}  // namespace bytetape::dist
