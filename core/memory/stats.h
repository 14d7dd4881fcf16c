#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// The totals of a device (torch.cuda.memory_stats); of the host's, of Device::cpu(), likewise.
Statistics stats(Device device = default_device());
/// All the books of a device, the log among them (torch.cuda.memory_snapshot).
Snapshot snapshot(Device device = default_device());
/// Peaks of a device start over from what is held now (torch.cuda.reset_peak_memory_stats).
void reset_peaks(Device device = default_device());
/// Returns every unused segment of a device to the system (torch.cuda.empty_cache).
void empty_cache(Device device = default_device());
/// Forgets a device's events and steps so far, and keeps at most `capacity` of each from now on. Steps count from 1
/// again. Throws ValueError, and changes nothing, if there is no memory for as many.
void reset_log(Device device = default_device(), std::size_t capacity = Ledger::default_log_capacity);
/// No more than `bytes` are ever reserved on a device (torch.cuda.set_per_process_memory_fraction, in bytes). The
/// default is what the device has. Below what is reserved now, unused segments go back first.
void set_limit(std::size_t bytes, Device device = default_device());

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
