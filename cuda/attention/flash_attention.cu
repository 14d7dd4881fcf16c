// Attention that keeps scores in registers (Dao, "FlashAttention-2", 2023). A thread block has 64 or 128 queries of
// a head, and goes through the keys in tiles, the next of which is copied meanwhile.
#include <limits>

#include "bytetape/cuda/attention/flash_attention.h"
#include "bytetape/cuda/attention/flash_launch.cuh"
#include "bytetape/cuda/pointwise/approximate.cuh"

namespace bytetape::cuda {
namespace {

using namespace flash;

struct Forward {
  AttentionSizes size;
  Tokens q, k, v, y;
  float *shift, *factor;  // (b, h, n)
  float scale;            // of scores whose exponentials have base 2

  explicit Forward(const AttentionArgs& a)
      : size(a.in),
        q(a.in.q),
        k(a.in.k),
        v(a.in.v),
        y(a.y),
        shift(a.shift.as<float>()),
        factor(a.factor.as<float>()),
        scale(base_2_scale(a.in)) {}
};

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The softmax of a row so far: the largest score, and the thread's part of the sum of exponentials.
struct Softmax {
  float largest = -infinity, sum = 0;

  /// Adds the thread's scores of the row. Turns them into exponentials relative to the largest so far. Returns what
  /// sums so far are to be multiplied by.
  template <int groups>
  __device__ float add(float (&scores)[groups][4], int half) {
    float most = largest;
    for (auto& v : scores) most = fmaxf(most, fmaxf(v[2 * half], v[2 * half + 1]));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    const float pivot = most == -infinity ? 0.0f : most;  // -inf - -inf is NaN
    const float factor = approximate_exp2(largest - pivot);
    largest = most;
    sum *= factor;
    for (auto& v : scores)
      for (int k = 2 * half; k < 2 * half + 2; ++k) {
        v[k] = approximate_exp2(v[k] - pivot);
        sum += v[k];
      }
    return factor;
  }
  /// Returns the sum over the threads that share the row.
  __device__ float total() const {
    float all = sum;
    all += __shfl_xor_sync(~0u, all, 1);
    return all + __shfl_xor_sync(~0u, all, 2);
  }
};

/// A warp computes this many products of 16 queries, for which it reads keys and values once.
template <int D>
constexpr int stacks = D > 64 ? 1 : 2;

template <int D, int columns>
__global__ void __launch_bounds__(threads, 2) forward_kernel(const __grid_constant__ Forward a) {
  constexpr int rows = block_rows(stacks<D>);
  extern __shared__ __align__(16) float shared[];
  float* const q = shared;
  Stages<D, columns> keys(q + tile_size<D, rows>), values(keys.end());
  const Block<rows> block(a.size, a.size.heads, true);
  const std::int64_t group = block.head / a.size.heads_per_group(), first = block.first;
  const int d = static_cast<int>(a.size.d);
  const std::int64_t end = a.size.end_of_keys(min(first + rows, a.size.n));
  const auto start = [&](std::int64_t j, int stage) {
    if (j < end) {
      start_copy<D, columns>(keys.at(stage), a.k.at(block.batch, group, j), a.k.token, end - j, d);
      start_copy<D, columns>(values.at(stage), a.v.at(block.batch, group, j), a.v.token, end - j, d);
    }
    __pipeline_commit();
  };
  start_copy<D, rows>(q, a.q.at(block.batch, block.head, first), a.q.token, a.size.n - first, d);
  __pipeline_commit();
  start(0, 0);

  const int warp_row = warp_first_row<stacks<D>>();
  __pipeline_wait_prior(1);
  __syncthreads();
  const RowsInRegisters<D, stacks<D>> queries(q + warp_row * pitch<D>);
  Softmax softmax[stacks<D>][2];
  Rows<D, stacks<D>> y;
  int stage = 0;
  for (std::int64_t j = 0; j < end; j += columns, stage ^= 1) {
    start(j + columns, stage ^ 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    const Mask mask(a.size, first + warp_row, j);
    if (!mask.hides_all(16 * stacks<D>)) {
      auto scores = multiply_rows<D, columns>(queries, keys.at(stage));
      for_results(scores, [&](int m, int g, int k, int, int) { scores.v[m][g][k] *= a.scale; });
      if (!mask.shows_all(columns))
        for_results(scores, [&](int m, int g, int k, int row, int column) {
          if (!mask.shows(row, column)) scores.v[m][g][k] = -infinity;
        });
      for_rows<stacks<D>>([&](int m, int half, int) {
        const float factor = softmax[m][half].add(scores.v[m], half);
        for (auto& v : y.v[m]) v[2 * half] *= factor, v[2 * half + 1] *= factor;
      });
      multiply_columns(scores, values.at(stage), y);
    }
    __syncthreads();
  }
  for_rows<stacks<D>>([&](int m, int half, int row) {
    const std::int64_t i = first + warp_row + row;
    const float total = softmax[m][half].total();
    if (i >= a.size.n) return;
    store_row<D>(y, m, half, 1 / total, a.y.at(block.batch, block.head, i), d);
    if (word_of_lane() != 0) return;
    a.shift[block.row(a.size) + i] = (softmax[m][half].largest + log2f(total)) / base_2;
    a.factor[block.row(a.size) + i] = 1;
  });
}

}  // namespace

void run_flash(const AttentionArgs& a, void*) {
  const Forward args(a);
  const cudaStream_t stream = stream_of(a.y.device);
  visit_columns(args.size, [&](auto width) {
    constexpr int D = decltype(width)::value, columns = D > 32 ? 32 : 64, own = block_rows(stacks<D>);
    static_assert(tile_bytes<D>(own + 4 * columns) <= 99 << 10);  // all GPUs have that
    launch_blocks<D>(forward_kernel<D, columns>, args, own, own + 4 * columns, args.size.n, args.size.heads, stream);
  });
}

}  // namespace bytetape::cuda
