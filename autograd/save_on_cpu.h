#pragma once
#include <cstddef>
#include <limits>

#include "bytetape/core/intrusive.h"
#include "bytetape/core/storage.h"

namespace bytetape {

struct SaveOnCpuOptions {
  static constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

  /// The newest saved bytes that stay on the device. A copy has the time in which forward saves, or backward releases,
  /// this many bytes. A few layers' worth hides the copies. `everything` disables offloading.
  std::size_t keep = std::size_t{256} << 20;
  std::size_t min_bytes = std::size_t{1} << 20;  ///< smaller tensors stay on the device
};

/// Offloads saved tensors to pinned host memory, on this thread while it lives. The newest `keep` bytes stay on the
/// device (torch.autograd.graph.save_on_cpu with pin_memory).
///
///     {
///       const SaveOnCpu offload({.keep = std::size_t{512} << 20});
///       loss = cross_entropy(net(x), y);
///     }
///     loss.backward();
///
/// Bits are the same. A tensor is copied to the host, in parallel with ops, once half of `keep` was saved after it. Its
/// device memory is free once all of `keep` was saved after it. Backward copies tensors back ahead of their use. If an
/// op needs a tensor earlier, it waits for the copy. What is on the device depends on the program only, so
/// memory::predict() predicts device and host memory.
///
/// These stay on the device: parameters, inputs, tensors that backward itself saves (create_graph), tensors restored
/// with retain_graph, and the rest once host memory runs out. On devices without pinned memory, such as the CPU,
/// nothing happens. Other threads must not use a saved tensor before backward has released it. Of nested scopes the
/// innermost is in effect.
/// Throws CaptureError, from the step, if a captured step uses it.
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
