#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/default_device.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/holders.h"

namespace bytetape::memory {

/// The totals of a device (torch.cuda.memory_stats); of the host's, of Device::cpu(), likewise.
Statistics stats(Device device = default_device());

/// What was held when most was.
struct Peak {
  std::size_t allocated = 0;  ///< bytes; what follows sums to it
  std::uint32_t step = 0;     ///< when that was: 0 outside any step
  Phase phase = Phase::setup;
  RoleBytes by_role{};
  std::vector<Holder> by_module;  ///< what each module held in each role, the largest first
  std::vector<Holder> by_op;      ///< and what each op had allocated
};
/// The highest that a device's `allocated` was since the start or reset_peaks(), and who held it then.
Peak at_peak(Device device = default_device());

}  // namespace bytetape::memory
