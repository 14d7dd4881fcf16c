#pragma once
#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/core/tensor.h"

namespace bytetape::test {

inline memory::Statistics statistics(Device device = {}) { return memory::stats(device); }
/// Bytes handed out now.
inline std::size_t allocated(Device device = {}) { return statistics(device).allocated.current; }
/// ... under one role.
inline std::size_t held_as(memory::Role role, Device device = {}) {
  return statistics(device).by_role[static_cast<std::size_t>(role)].current;
}
/// The op that allocated x.
inline memory::NameId op_of(const Tensor& x) { return x.storage().owner().op; }
using memory::rounded;  // what a tensor of so many bytes costs

}  // namespace bytetape::test
