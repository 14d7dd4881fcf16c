#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "bytetape/core/memory/allocator/allocation_mode.h"
#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

struct Block;
class Policy;
class Upstream;

/// Makes a policy over an upstream. The policy calls the observer for every segment that it takes (true) or returns
/// (false). A custom policy includes core/memory/allocator/policy.h.
using MakePolicy = std::function<std::unique_ptr<Policy>(
    Upstream&, std::function<void(const Block& segment, bool acquired)> observer)>;
/// Returns a function that makes the policy of an Allocator in `mode`.
MakePolicy policy_of(AllocationMode mode);

struct ResimulateOptions {
  MakePolicy policy = policy_of(AllocationMode::caching);
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< bytes that may be reserved
};

/// The result of resimulate().
struct Resimulated {
  /// A request that could not be served, and the state at that time, in bytes.
  struct Failure {
    Record request;                ///< as it was recorded
    std::size_t requested = 0;     ///< rounded
    std::size_t allocated = 0;     ///< held by other blocks
    std::size_t reserved = 0;      ///< after the cache returned unused segments
    std::size_t largest_free = 0;  ///< the largest request that the cache could serve
  };
  DeviceLog device;  ///< the simulated records, up to the failure; `limit` is the options'
  std::optional<Failure> failure;
};

/// Replays the requests and frees of a recorded device with another policy. Shows what would be reserved, and whether
/// that fits the limit. The simulated system has unlimited memory. One policy serves all requests, regardless of
/// streams and pools. A request that failed in the recording is tried again, and freed at once if it succeeds.
Resimulated resimulate(const DeviceLog& device, const ResimulateOptions& options = {});

}  // namespace bytetape::memory
