#include <algorithm>
#include <bit>

#include "bytetape/cuda/reduce/sort.h"
#include "bytetape/cuda/reduce/sorted_runs.h"

namespace bytetape::cuda {

// A run of all places is divided into about as many chunks as a chunk has places, so that no thread adds many numbers.
RunsScratch::RunsScratch(std::int64_t places, std::int64_t targets, std::int64_t columns, DType dtype)
    : buffer(sort_buffer(places)) {
  constexpr std::int64_t undivided = 256, least = 64;
  if (columns > 0 && places > undivided) {
    chunk = std::max(least, std::int64_t{1} << std::bit_width(static_cast<std::uint64_t>(places)) / 2);
    chunks = places / chunk;
  }
  const std::size_t element = std::max<std::size_t>(size_of(dtype), sizeof(float));  // sums of 16-bit floats are f32
  starts = 4 * buffer;
  chunk_sums = starts + (targets > 0 ? sort_buffer(targets + 1) : 0);
  sort = chunk_sums + (static_cast<std::size_t>(chunks * columns) * element + 255) / 256 * 256;
  bytes = sort + (places > 0 ? sort_scratch(places) : 0);
}

}  // namespace bytetape::cuda
