#pragma once
#include <cstddef>
#include <limits>

#include "bytetape/core/intrusive.h"
#include "bytetape/core/storage.h"

namespace bytetape {

struct SaveOnCpuOptions {
  static constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

  /// The bytes of the newest saved tensors that stay on the device. `everything` disables offloading. Copies run while
  /// ops save or release these bytes, so `keep` should be what a few layers save.
  std::size_t keep = std::size_t{256} << 20;
  std::size_t min_bytes = std::size_t{1} << 20;  ///< smaller tensors stay on the device
};

/// Offloads saved tensors to pinned host memory, on this thread while it lives (torch.autograd.graph.save_on_cpu with
/// pin_memory). The newest `keep` bytes stay on the device.
///
///     {
///       const SaveOnCpu offload({.keep = std::size_t{512} << 20});
///       loss = cross_entropy(net(x), y);
///     }
///     loss.backward();
///
/// Results have the same bits as without offloading. A tensor is copied to the host, in parallel with ops, once half of
/// `keep` was saved after it. Its device memory is freed once all of `keep` was saved after it. Backward copies tensors
/// back before it needs them. An op that needs a tensor earlier waits for the copy. The tensors on the device depend on
/// the program only, so memory::predict() predicts device and host memory.
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
  Ref<detail::SavedWatch> watch_;
  detail::SavedWatch* outer_;
};

}  // namespace bytetape
