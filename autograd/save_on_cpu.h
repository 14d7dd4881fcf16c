#pragma once
#include <cstddef>
#include <limits>

#include "bytetape/core/intrusive.h"
#include "bytetape/core/storage.h"

namespace bytetape {

struct SaveOnCpuOptions {
  static constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

  /// Bytes of what was saved last that stay on the device. So much has to be saved again, or run backward, while a copy
  /// takes place: some layers' worth, so that no one waits for it. `everything`: nothing goes.
  std::size_t keep = std::size_t{256} << 20;
  std::size_t min_bytes = std::size_t{1} << 20;  ///< what is smaller stays
};

/// While it lives, on its thread, what nodes keep for backward goes to memory of the host that is pinned for the device
/// (torch.autograd.graph.save_on_cpu with pin_memory), but for the newest `keep` bytes, and comes back in time:
///
///     {
///       const SaveOnCpu offload({.keep = std::size_t{512} << 20});
///       loss = cross_entropy(net(x), y);
///     }
///     loss.backward();
///
/// Values are the same to the bit. What is older than half of `keep` is copied out beside the ops that follow, and its
/// memory is free once it is older than all of it; as backward lets go of what is newer, it is copied back ahead of
/// its use. What an op uses meanwhile comes back at once, and the op waits for that. Parameters, inputs and what was
/// let go before stay where they are. So what is on the device depends on the program alone, and memory::predict()
/// tells it, the host's part too.
///
/// What backward itself saves stays (create_graph), and with retain_graph what it brings back. Where the host's memory
/// runs out, what is left stays. Where a device has no pinned memory (the CPU) nothing happens. A step that is captured
/// cannot have it: CaptureError. What is saved must not be used by other threads until backward has let go of it. Of
/// scopes in each other the innermost counts.
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
