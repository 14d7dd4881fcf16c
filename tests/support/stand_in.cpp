#include "tests/support/stand_in.h"
#include "bytetape/core/memory/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "bytetape/core/cpu/table.h"
#include "tests/support/memory.h"

namespace bytetape::test {
namespace {
std::unique_ptr<memory::Allocator> there, twin;  // one stand-in at a time
}

void copy_bytes(Place<const void*> from, Place<void*> to, std::size_t bytes) { std::memcpy(to.data, from.data, bytes); }

StandIn::StandIn(Backend own, Device device, std::unique_ptr<memory::Upstream> upstream, memory::Allocator::Mode mode)
    : device_(device) {
  there = std::make_unique<memory::Allocator>(device, std::move(upstream), mode);
  twin = std::make_unique<memory::Allocator>(Device::meta(device), std::make_unique<memory::SimulatedUpstream>(), mode);
  own.allocator = [](int) -> memory::Allocator& { return *there; };
  own.meta_allocator = [](int) -> memory::Allocator& { return *twin; };
  if (!own.kernels) own.kernels = &cpu::kernels();
  if (!own.transfer) own.transfer = copy_bytes;
  register_backend(device.type, own);
}

StandIn::~StandIn() {
  EXPECT_EQ(allocated(device_), 0u);
  EXPECT_EQ(allocated(Device::meta(device_)), 0u);
  register_backend(device_.type, {});
}

}  // namespace bytetape::test
