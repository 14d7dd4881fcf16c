#pragma once
#include <cstddef>
#include <vector>

namespace bytetape::memory {

/// Returns the largest request, in bytes, that the caching policy could serve after it laid out blocks of `sizes` anew,
/// the largest first, in segments of at most `budget` bytes in all. 0 if the blocks alone do not fit.
std::size_t max_fit_if_compacted(std::vector<std::size_t> sizes, std::size_t budget);

}  // namespace bytetape::memory
