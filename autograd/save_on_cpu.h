#pragma once
#include <cstddef>
#include <limits>

#include "bytetape/autograd/offload_history.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/storage.h"

namespace bytetape {
namespace detail {
class NewestFirst;
}

struct SaveOnCpuOptions {
  static constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

  /// The bytes of the newest saved tensors that stay on the device. `everything` disables offloading. Copies run while
  /// ops save or release these bytes, so `keep` should be what a few layers save.
  std::size_t keep = std::size_t{256} << 20;
  std::size_t min_bytes = std::size_t{1} << 20;  ///< smaller tensors stay on the device
  /// The knowledge of earlier forward passes in scopes with this object. A copy of the options has none.
  OffloadHistory history = {};
};

/// Offloads saved tensors to pinned host memory, on this thread while it lives (torch.autograd.graph.save_on_cpu with
/// pin_memory). The newest `keep` bytes stay on the device.
///
///     const SaveOnCpuOptions options{.keep = std::size_t{512} << 20};
///     for (...) {
///       Tensor loss;
///       {
///         const SaveOnCpu offload(options);
///         loss = cross_entropy(net(x), y);
///       }
///       loss.backward();
///     }
///
/// Results have the same bits as without offloading. The device memory of a tensor is freed once `keep` bytes were
/// saved after it. Before that, the tensor is copied to the host in parallel with ops. The first forward pass begins to
/// copy a tensor once half of `keep` was saved after it, so half of what stays is copied too. Later passes under the
/// same options object, if they save tensors of the same sizes, copy only what will leave, and begin once two tensors
/// were saved after it. Backward copies tensors back before it needs them. An op that needs a tensor earlier waits for
/// the copy. Copies depend on the program only, so memory::predict() predicts device and host memory.
///
/// These stay on the device: parameters, inputs, tensors that backward itself saves (create_graph), tensors that a
/// backward with retain_graph restored, and all further tensors once host memory is exhausted. On devices without
/// pinned memory, such as the CPU, nothing happens. Other threads must not use a saved tensor before backward has
/// released it. Of nested scopes, the innermost is in effect.
///
/// In a captured step, the copies are part of the graph, and the step owns the host memory. A tensor that outlives the
/// step without being an output or a gradient may be left on the host. Its use then throws CaptureError.
class SaveOnCpu {
 public:
  [[nodiscard]] explicit SaveOnCpu(const SaveOnCpuOptions& options = {});
  ~SaveOnCpu();
  SaveOnCpu(const SaveOnCpu&) = delete;
  SaveOnCpu& operator=(const SaveOnCpu&) = delete;

 private:
  Ref<detail::NewestFirst> watch_;
  detail::SavedWatch* outer_;
  int exceptions_;  // in flight when the scope began
};

}  // namespace bytetape
