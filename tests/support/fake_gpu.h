#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape::test {

/// A device of the host's memory in the place of a GPU that has pinned memory, streams and marks, and writes down what
/// they are given. One at a time. Kernels run at once, copies of the stream for them as late as may be: when somebody
/// waits for them. So a wait that is missing gives wrong values. A step is computed while it is recorded, and replays
/// are counted. StandIn does for tests that need none of this.
struct FakeGpu {
  FakeGpu();
  ~FakeGpu();
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  /// Empties the caches and the logs, so that the next program has the events of a first one.
  void start_anew();

  static inline const Device gpu = Device::cuda(), meta_gpu = Device::meta(gpu);

  memory::Allocator device{gpu, std::make_unique<memory::HostUpstream>()};
  memory::Allocator twin{meta_gpu, std::make_unique<memory::SimulatedUpstream>()};
  memory::PinnedMemory pinned;
  memory::PinnedMemory pinned_twin{meta_gpu, std::make_unique<memory::SimulatedUpstream>()};
  std::uint64_t marks = 0, waited = 0;  ///< the last that was made, and that somebody waited for
  std::vector<const void*> sent_from;   ///< on the host, to the device
  /// "copy on 15" to the device, "copy out on 15", "0>15" for a wait of 15 for 0, "#3>0" of 0 for a mark,
  /// "handle 100>7" for the stream with handle 7, which waits for stream 0: their handles are their numbers and 100.
  std::vector<std::string> done;
  std::atomic<void*> recorded = nullptr;  ///< the handle of a stream of another library that is being recorded
  /// Copies that are to be done, and the marks between them, whose function is empty.
  struct Late {
    std::function<void()> copy;
    std::uint64_t mark;
  };
  std::deque<Late> late;
  int replays = 0;
};

}  // namespace bytetape::test
