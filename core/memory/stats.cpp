#include "bytetape/core/memory/stats.h"

#include "bytetape/core/backend.h"

namespace bytetape::memory {

Statistics stats(Device device) { return allocator(device).statistics(); }

Peak at_peak(Device device) {
  const Snapshot s = allocator(device).snapshot();
  return {s.statistics.allocated.peak, s.statistics.peak_step,          s.statistics.peak_phase,
          s.statistics.at_peak,        holders_of(s.by_module_at_peak), holders_of(s.by_op_at_peak)};
}

}  // namespace bytetape::memory
