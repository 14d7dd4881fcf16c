#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/compare.h"

namespace bytetape::test {

using memory::first_difference;  // EXPECT_EQ(first_difference(on_cpu, on_meta), "");

/// Every event that `program` causes on a device, from an empty cache. Nothing may be held on the device before, or the
/// test fails: what is held shapes what comes after.
std::vector<memory::Event> record_events(Device device, const std::function<void(Device)>& program);

/// The bytes that a program requests on a device for each tensor, in order, and for all workspaces together.
struct Allocations {
  std::vector<std::uint64_t> tensors;
  std::uint64_t workspaces = 0;
};
Allocations allocations_of(Device device, const std::function<void()>& program);

}  // namespace bytetape::test
