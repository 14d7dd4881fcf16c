#pragma once
#include <memory>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"

namespace bytetape::test {

/// A device of the host's memory in the place of a GPU, for tests of what needs none. While it lives, `own` runs the
/// device and its meta twin, but with new allocators, over `upstream` and over a simulated one; what it leaves out of
/// kernels and transfer is the CPU's. At the end the test fails where anything is still held.
class StandIn {
 public:
  explicit StandIn(Backend own = {}, Device device = Device::cuda(),
                   std::unique_ptr<memory::Upstream> upstream = std::make_unique<memory::HostUpstream>(),
                   memory::Allocator::Mode mode = memory::Allocator::Mode::caching);
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

 private:
  Device device_;
};

/// A transfer between memory that is all the host's.
void copy_bytes(Place<const void*> from, Place<void*> to, std::size_t bytes);

}  // namespace bytetape::test
