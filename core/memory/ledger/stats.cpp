#include "bytetape/core/memory/stats.h"

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {

Statistics stats(Device device) { return allocator(device).statistics(); }

Snapshot snapshot(Device device) { return allocator(device).snapshot(); }
void reset_peaks(Device device) { allocator(device).reset_peaks(); }
void reset_log(Device device, std::size_t capacity) { allocator(device).reset_log(capacity); }
void empty_cache(Device device) { allocator(device).empty_cache(); }
void set_limit(std::size_t bytes, Device device) { allocator(device).set_limit(bytes); }

Peak at_peak(Device device) {
  const Snapshot s = snapshot(device);
  return {s.statistics.allocated.peak, s.statistics.peak_step,          s.statistics.peak_phase,
          s.statistics.at_peak,        holders_of(s.by_module_at_peak), holders_of(s.by_op_at_peak)};
}

}  // namespace bytetape::memory
