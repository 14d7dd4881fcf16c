#pragma once
#include <cstddef>
#include <vector>

namespace bytetape::memory {

/// The largest request, in bytes, that the caching policy could serve next, had it laid blocks that were asked for with
/// these sizes anew, the largest first, in segments of `budget` bytes in all. 0 where they alone do not fit.
std::size_t max_fit_if_compacted(std::vector<std::size_t> sizes, std::size_t budget);

}  // namespace bytetape::memory
