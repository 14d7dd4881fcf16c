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

/// Makes a policy over an upstream. The policy tells the observer of every segment that it takes (true) or returns
/// (false). A policy of your own includes core/memory/policy.h.
using MakePolicy = std::function<std::unique_ptr<Policy>(
    Upstream&, std::function<void(const Block& segment, bool acquired)> observer)>;
/// Makes the policy of an Allocator in that mode.
MakePolicy policy_of(AllocationMode mode);

struct ResimulateOptions {
  MakePolicy policy = policy_of(AllocationMode::caching);
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< bytes that may be reserved
};

/// A recording's requests, served otherwise.
struct Resimulated {
  /// A request that could not be served; what was so then, in bytes.
  struct Failure {
    Record request;                ///< as it was recorded
    std::size_t requested = 0;     ///< rounded
    std::size_t allocated = 0;     ///< held by others
    std::size_t reserved = 0;      ///< after the cache had given back what it could
    std::size_t largest_free = 0;  ///< the largest request that the cache could serve
  };
  DeviceLog device;  ///< the records as they would have been, up to the failure; `limit` is the options'
  std::optional<Failure> failure;
};

/// Sends the requests and frees of a recorded device through a fresh policy over a system without end: what would be
/// reserved, and whether it fits the limit. One policy serves all, as if no work had gone to other streams or into
/// pools. A request that failed when it was recorded is made once more, and given back at once where it succeeds.
Resimulated resimulate(const DeviceLog& device, const ResimulateOptions& options = {});

}  // namespace bytetape::memory
