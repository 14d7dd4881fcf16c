#include "bytetape/core/cpu/winograd/split.h"

#include "bytetape/core/cpu/winograd/images.h"
#include "bytetape/core/parallel.h"

namespace bytetape::cpu::winograd {

Split::Split(std::int64_t tiles, std::int64_t channels, std::int64_t results)
    : keeps_filters(products * channels * results <= std::int64_t{1} << 20), block(0), groups(1), blocks_(0) {
  constexpr std::int64_t most = 8 * most_rows;  // tiles whose inputs or sums about fit into a core's cache
  // Nanoseconds per vector, of one core of a Zen 4: to transform inputs, filters and results, and to multiply.
  constexpr double input = 140, filter = 80, result = 84, product = 10;
  const std::int64_t panels = ceil_div(results, panel);
  const auto n = static_cast<double>(channels);
  double best = 0;
  for (std::int64_t size = most; size > 0; size -= most_rows)
    for (std::int64_t g = 1; g <= panels; ++g) {
      const std::int64_t blocks = ceil_div(tiles, size), rounds = ceil_div(blocks * g, num_threads());
      const auto t = static_cast<double>(size), vectors = static_cast<double>(ceil_div(panels, g) * panel / width);
      const double part =
          t * n / width * input + vectors * (t * result + n * (t * product + (keeps_filters ? 0 : filter)));
      const double time = static_cast<double>(rounds) * part;
      if (block && time >= best) continue;
      best = time;
      block = size;
      groups = g;
      blocks_ = blocks;
    }
}

}  // namespace bytetape::cpu::winograd
