// Draws from rows of probabilities. A block takes a row.
#include "bytetape/cuda/reduce/multinomial.h"

#include <algorithm>

#include "bytetape/core/multinomial.h"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

/// The rows of weights.
struct Weights {
  const double* data;
  std::int64_t rows, n;
  std::int64_t least;  // positive elements that a row needs
  FaultSlot faults;

  Weights(const ConstView& p, std::int64_t least)
      : data(p.as<double>()), rows(p.shape[0]), n(p.shape[1]), least(least), faults(p.device) {}
  __device__ const double* row(std::int64_t i) const { return data + i * n; }
  /// Whether the row can be drawn from. Reports a fault if it is the first that cannot. Every thread of the block must
  /// call this.
  __device__ bool check(std::int64_t i) const {
    std::int64_t counts[2] = {};  // positive elements, and elements that are no weights
    for (std::int64_t j = threadIdx.x; j < n; j += block_size) add(i, j, counts);
    reduce_block<WarpOrder::sequential, block_size / 32>(Plus(), counts, block_size);
    const bool is_valid = counts[0] >= least && counts[1] == 0;
    if (!is_valid && threadIdx.x == 0)
      leave_if_first(faults, {Fault::Kind::probabilities, i, least}, i, [this](std::int64_t row) {
        std::int64_t counts[2] = {};
        for (std::int64_t j = 0; j < n; ++j) add(row, j, counts);
        return counts[0] < least || counts[1] > 0;
      });
    return is_valid;
  }

 private:
  __device__ void add(std::int64_t i, std::int64_t j, std::int64_t (&counts)[2]) const {
    const double p = row(i)[j];
    counts[0] += p > 0;
    counts[1] += !is_weight(p);
  }
};

__global__ void __launch_bounds__(block_size)
    multinomial_kernel(Weights p, const double* cumulative, const double* u, std::int64_t k, std::int64_t* y) {
  for (std::int64_t i = blockIdx.x; i < p.rows; i += gridDim.x) {
    const bool is_valid = p.check(i);
    for (std::int64_t j = threadIdx.x; j < k; j += block_size)
      y[i * k + j] = is_valid ? drawn_place(p.row(i), cumulative + i * p.n, p.n, u[i * k + j]) : 0;
  }
}

__global__ void __launch_bounds__(block_size) multinomial_race_kernel(Weights p, double* u) {
  for (std::int64_t i = blockIdx.x; i < p.rows; i += gridDim.x) {
    const bool is_valid = p.check(i);
    for (std::int64_t j = threadIdx.x; j < p.n; j += block_size) {
      double& key = u[i * p.n + j];
      const double weight = p.row(i)[j];
      key = !is_valid ? 0 : weight > 0 ? ::fmax(::log(1 - key) / weight, least_key) : last_key;
    }
  }
}

unsigned blocks_of_rows(const ConstView& p) {
  return static_cast<unsigned>(std::min(p.shape[0], std::int64_t{processors(p.device)} * 16));
}

}  // namespace

void multinomial(const MultinomialArgs& a) {
  if (a.y.numel() == 0) return;
  multinomial_kernel<<<blocks_of_rows(a.p), block_size, 0, stream_of(a.p.device)>>>(
      Weights(a.p, 1), a.cumulative.as<double>(), a.u.as<double>(), a.y.shape[1], a.y.as<std::int64_t>());
  check_launch();
}

void multinomial_race(const MultinomialRaceArgs& a) {
  if (a.u.numel() == 0) return;
  multinomial_race_kernel<<<blocks_of_rows(a.p), block_size, 0, stream_of(a.p.device)>>>(Weights(a.p, a.k),
                                                                                         a.u.as<double>());
  check_launch();
}

}  // namespace bytetape::cuda
