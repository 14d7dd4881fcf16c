#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/device.h"
#include "bytetape/core/memory/ledger.h"

namespace bytetape::test {

/// "alloc 512 B (of 4 asked) at 0+1024, output/temporary of 'net.fc1' by matmul, forward, step 1".
std::string describe(const memory::Event& e);

/// Where two logs first differ, in words; empty where they are equal, record by record:
///
///     EXPECT_EQ(first_difference(on_cpu, on_meta), "");
std::string first_difference(const std::vector<memory::Event>& a, const std::vector<memory::Event>& b);

/// Every event that `program` causes on a device, from an empty cache. Nothing may be held on the device before, or the
/// test fails: what is held shapes what comes after.
std::vector<memory::Event> record_events(Device device, const std::function<void(Device)>& program);

}  // namespace bytetape::test
