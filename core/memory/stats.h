#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// Returns the totals of a device (torch.cuda.memory_stats). Device::cpu() has the host's.
Statistics stats(Device device = default_device());
/// Returns all tables of a device's ledger, with the log (torch.cuda.memory_snapshot).
Snapshot snapshot(Device device = default_device());
/// Resets a device's peaks to the current values (torch.cuda.reset_peak_memory_stats).
void reset_peaks(Device device = default_device());
/// Returns every unused segment of a device to the system (torch.cuda.empty_cache).
void empty_cache(Device device = default_device());
/// Clears a device's events and steps, and keeps at most `capacity` of each from now on. Steps count from 1 again, or
/// on from those that are still open.
/// Throws ValueError, and changes nothing, if there is no memory for `capacity`.
void reset_log(Device device = default_device(), std::size_t capacity = Ledger::default_log_capacity);
/// Sets the most bytes that may be reserved on a device (torch.cuda.set_per_process_memory_fraction, in bytes). The
/// default is the device's memory. If more are reserved now, unused segments are returned first.
void set_limit(std::size_t bytes, Device device = default_device());

/// The holders of a device's peak.
struct Peak {
  std::size_t allocated = 0;  ///< bytes; the tables below sum to it
  std::uint32_t step = 0;     ///< step of the peak; 0 outside any step
  Phase phase = Phase::setup;
  RoleBytes by_role{};
  std::vector<Holder> by_module;  ///< bytes by module and role, the largest first
  std::vector<Holder> by_op;      ///< bytes by op and role, the largest first
};
/// Returns a device's peak of `allocated` since the start or reset_peaks(), and who held it.
Peak at_peak(Device device = default_device());

}  // namespace bytetape::memory
