#pragma once
#include <cstddef>
#include <vector>

#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// A request that failed in a recording.
struct FailedRequest {
  std::size_t record;  ///< index of its record
  Shortage shortage;   ///< as the exception had it, without the holders
};

/// Returns the device's failed requests, in order. Shortages are recomputed from the records. They are those of the
/// exceptions if one stream used the device and no step was captured. Memory outside the ledger is that at the end.
std::vector<FailedRequest> failed_requests(const DeviceLog& device);

/// Whether the device's last failed request ended the run: no step began after it on any device, and no block was
/// allocated after it on this one.
bool ended_out_of_memory(const Log& log, const DeviceLog& device);

}  // namespace bytetape::memory
