#include <algorithm>

#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {
namespace {

/// Returns the number of runs to which the pixels of x are dealt. Each run gives two numbers per channel. The shape
/// alone decides, so that memory does not depend on the device or on addresses.
std::int64_t run_count(const ConstView& x) {
  const std::int64_t channels = x.shape[1], pixels = x.shape[0] * x.shape[2] * x.shape[3];
  if (channels == 0) return 0;
  constexpr std::int64_t blocks = 128;    // about one per multiprocessor of a large GPU
  constexpr std::int64_t least = 8192;    // elements that are worth a block
  constexpr std::int64_t single = 16384;  // elements up to which one block is as fast
  const auto widest = static_cast<std::int64_t>(8 * 16 / size_of(x.dtype));  // vectors across (batch_norm_runs.cuh)
  const std::int64_t width = x.strides[1] == 1 ? std::min(channels, widest) : 1;
  if (pixels <= single / width) return 1;
  const std::int64_t tiles = (channels + width - 1) / width;
  const std::int64_t most = std::max<std::int64_t>(blocks / tiles, 1);
  const std::int64_t length = std::max(least / width, (pixels + most - 1) / most);
  return (pixels + length - 1) / length;
}

std::size_t number_size(const ConstView& x) { return size_of(accumulated(x.dtype)); }

}  // namespace

// Plan::algorithm is the number of runs. One run needs no partial results.

static Plan plan(const BatchNormTrainArgs& a) {
  const ConstView& x = a.statistics.x;
  const std::int64_t runs = run_count(x), partials = runs > 1 ? 2 * runs : 0;
  return {.workspace = static_cast<std::size_t>(partials * x.shape[1]) * number_size(x), .algorithm = runs};
}

bool has_sums(const BatchNormBackwardArgs& a) {
  return a.training || a.gw.defined() || a.gb.defined() || a.masked.defined();
}

static Plan plan(const BatchNormBackwardArgs& a) {
  const std::int64_t runs = run_count(a.x), partials = runs > 1 ? 2 * runs : 0;
  const std::int64_t numbers = a.training && a.gx.defined() ? 2 : 0;  // per channel: slope and offset
  return {
      .workspace = has_sums(a) ? static_cast<std::size_t>((numbers + partials) * a.x.shape[1]) * number_size(a.x) : 0,
      .algorithm = runs};
}

std::optional<HeldTiles> held_tiles(std::int64_t vectors, std::int64_t pixels, int most_per_thread) {
  const std::int64_t least_width = std::min<std::int64_t>(vectors, 4);  // narrower ones read too little of a cache line
  for (int per_thread = 4; per_thread <= most_per_thread; per_thread *= 2)
    for (int width = widest_held; width >= least_width; width /= 2) {
      const std::int64_t of_block = run_threads / width * per_thread, columns = vectors / width;
      int ranks = 1;
      while (ranks < most_ranks && ranks * of_block < pixels) ranks *= 2;
      if (vectors % width == 0 && ranks * of_block >= pixels && columns * ranks <= most_held_blocks)
        return HeldTiles{static_cast<int>(columns), ranks, width, per_thread};
    }
  return {};
}

const BatchNormKernels& batch_norm_plans() {
  static const BatchNormKernels all{
      .batch_norm_train = {plan, nullptr},
      .batch_norm_backward = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
