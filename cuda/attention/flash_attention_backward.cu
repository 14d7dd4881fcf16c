// Gradients of attention, which computes scores again from the log-sum-exp (Dao, "FlashAttention-2", 2023). With
// probabilities p and slopes = p (gy v^T - rowsum(gy y)): gv = p^T gy, gk = scale slopes^T q and gq = scale slopes k.
// A block of one kernel has the gradients of 64 or 128 keys, and goes through the queries. Another kernel has those of
// queries. So each sum is one thread's, in a fixed order.
#include "bytetape/cuda/attention/flash_attention.h"
#include "bytetape/cuda/attention/flash_launch.cuh"
#include "bytetape/cuda/pointwise/approximate.cuh"

namespace bytetape::cuda {
namespace {

using namespace flash;

struct Backward {
  AttentionSizes size;
  Tokens q, k, v, y, gy, gq, gk, gv;
  const float *shift, *factor;  // (b, h, n)
  float* dots;                  // rowsum(gy y), likewise
  float scale, base_2_scale;

  Backward(const AttentionBackwardArgs& a, void* ws)
      : size(a.in),
        q(a.in.q),
        k(a.in.k),
        v(a.in.v),
        y(a.y),
        gy(a.gy),
        gq(tokens_or_none(a.gq)),
        gk(tokens_or_none(a.gk)),
        gv(tokens_or_none(a.gv)),
        shift(a.shift.as<float>()),
        factor(a.factor.as<float>()),
        dots(static_cast<float*>(ws)),
        scale(static_cast<float>(a.in.scale)),
        base_2_scale(flash::base_2_scale(a.in)) {}

  static Tokens tokens_or_none(const View& x) {
    return Tokens(x.defined() ? ConstView(x) : ConstView(nullptr, DType::f32, x.device, {1, 1, 1, 1}, {0, 0, 0, 0}));
  }
};

/// A query's shift for exponentials with base 2, and its dot. A probability is 2^(score - shift). A query that is not
/// there has none, whatever its score.
struct Query {
  float shift = 0, dot = 0;
  bool is_there = false;

  __device__ Query() = default;
  __device__ Query(const Backward& a, std::int64_t row, std::int64_t i) : is_there(i < a.size.n) {
    if (!is_there) return;
    shift = a.shift[row + i] * base_2 - log2f(a.factor[row + i]);  // products store another shift than forward does
    dot = a.dots[row + i];
  }
  /// Turns a score and the product of gy and a value into the probability and the slope.
  __device__ void apply(float& score, float& product, float scale) const {
    score = is_there ? approximate_exp2(score * scale - shift) : 0.0f;
    product = is_there ? score * (product - dot) : 0.0f;
  }
};

/// Sets to 0 what belongs to a query and a key that the mask hides.
template <int columns, int stacks>
__device__ void hide(const Mask& mask, bool rows_are_queries, Rows<columns, stacks>& p, Rows<columns, stacks>& slopes) {
  for_results(p, [&](int m, int j, int k, int row, int column) {
    if (rows_are_queries ? mask.shows(row, column) : mask.shows(column, row)) return;
    p.v[m][j][k] = slopes.v[m][j][k] = 0;
  });
}

constexpr int dot_threads = 8;  // of a row

__global__ void __launch_bounds__(block_size) dots_kernel(const __grid_constant__ Backward a) {
  const std::int64_t row = (std::int64_t{blockIdx.x} * block_size + threadIdx.x) / dot_threads;
  const std::int64_t i = row % a.size.n, head = row / a.size.n % a.size.heads, batch = row / a.size.n / a.size.heads;
  const int lane = static_cast<int>(threadIdx.x) % dot_threads;
  float dot = 0;
  if (batch < a.size.batch) {
    const float *const y = a.y.at(batch, head, i), *const gy = a.gy.at(batch, head, i);
    for (int c = 4 * lane; c < a.size.d; c += 4 * dot_threads) {
      const float4 u = *reinterpret_cast<const float4*>(y + c), w = *reinterpret_cast<const float4*>(gy + c);
      dot += u.x * w.x + u.y * w.y + u.z * w.z + u.w * w.w;
    }
  }
  for (int by = dot_threads / 2; by > 0; by /= 2) dot += __shfl_xor_sync(~0u, dot, by);
  if (lane == 0 && batch < a.size.batch) a.dots[row] = dot;
}

/// gk and gv. Rows are keys, and columns are queries.
template <int D, int columns>
__global__ void __launch_bounds__(threads) keys_kernel(const __grid_constant__ Backward a) {
  constexpr int rows = block_rows<D>;
  extern __shared__ __align__(16) float shared[];
  float *const k = shared, *const v = k + tile_size<D, rows>;
  Stages<D, columns> q(v + tile_size<D, rows>), gy(q.end());
  const Block<D> block(a.size, a.size.groups, false);
  const std::int64_t per_group = a.size.heads_per_group(), n = a.size.n, first = block.first;
  const int d = static_cast<int>(a.size.d);
  // With a causal mask, queries before the first key see none.
  const std::int64_t begin = a.size.is_causal ? min(first / columns * columns, n) : 0,
                     tiles = (n - begin + columns - 1) / columns, all = tiles * per_group;
  const auto start = [&](std::int64_t tile, int stage) {
    if (tile < all) {
      const std::int64_t head = block.head * per_group + tile / tiles, i = begin + tile % tiles * columns;
      start_copy<D, columns>(q.at(stage), a.q.at(block.batch, head, i), a.q.token, n - i, d);
      start_copy<D, columns>(gy.at(stage), a.gy.at(block.batch, head, i), a.gy.token, n - i, d);
    }
    __pipeline_commit();
  };
  start_copy<D, rows>(k, a.k.at(block.batch, block.head, first), a.k.token, a.size.m - first, d);
  start_copy<D, rows>(v, a.v.at(block.batch, block.head, first), a.v.token, a.size.m - first, d);
  start(0, 0);

  const int warp_row = warp_first_row<D>();
  Rows<D, stacks<D>> gk, gv;
  for (std::int64_t tile = 0; tile < all; ++tile) {
    const int stage = static_cast<int>(tile % 2);
    const std::int64_t head = block.head * per_group + tile / tiles, i = begin + tile % tiles * columns;
    const std::int64_t row = (block.batch * a.size.heads + head) * n;
    Query queries[columns / 4];
#pragma unroll
    for (int c = 0; c < columns / 4; ++c) queries[c] = Query(a, row, i + c * 4 + word_of_lane());
    start(tile + 1, stage ^ 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    auto p = multiply_rows<D, columns>(k + warp_row * pitch<D>, q.at(stage));
    auto slopes = multiply_rows<D, columns>(v + warp_row * pitch<D>, gy.at(stage));
    const Mask mask(a.size, i, first + warp_row);
    for_results(p, [&](int m, int j, int k, int, int) {
      queries[2 * j + k % 2].apply(p.v[m][j][k], slopes.v[m][j][k], a.base_2_scale);
    });
    if (!mask.shows_all(warp_rows<D>)) hide(mask, false, p, slopes);
    multiply_columns<D, columns>(p, gy.at(stage), gv);
    multiply_columns<D, columns>(slopes, q.at(stage), gk);
    __syncthreads();
  }
  __pipeline_wait_prior(0);
  for_rows<D>([&](int m, int half, int row) {
    const std::int64_t j = first + warp_row + row;
    if (j >= a.size.m) return;
    if (a.gk.data) store_row<D>(gk, m, half, a.scale, a.gk.at(block.batch, block.head, j), d);
    if (a.gv.data) store_row<D>(gv, m, half, 1, a.gv.at(block.batch, block.head, j), d);
  });
}

/// gq. Rows are queries, and columns are keys.
template <int D, int columns>
__global__ void __launch_bounds__(threads) queries_kernel(const __grid_constant__ Backward a) {
  constexpr int rows = block_rows<D>;
  extern __shared__ __align__(16) float shared[];
  float *const q = shared, *const gy = q + tile_size<D, rows>;
  Stages<D, columns> k(gy + tile_size<D, rows>), v(k.end());
  const Block<D> block(a.size, a.size.heads, true);
  const std::int64_t group = block.head / a.size.heads_per_group(), first = block.first;
  const int d = static_cast<int>(a.size.d);
  const std::int64_t end = a.size.end_of_keys(min(first + rows, a.size.n));
  const auto start = [&](std::int64_t j, int stage) {
    if (j < end) {
      start_copy<D, columns>(k.at(stage), a.k.at(block.batch, group, j), a.k.token, end - j, d);
      start_copy<D, columns>(v.at(stage), a.v.at(block.batch, group, j), a.v.token, end - j, d);
    }
    __pipeline_commit();
  };
  start_copy<D, rows>(q, a.q.at(block.batch, block.head, first), a.q.token, a.size.n - first, d);
  start_copy<D, rows>(gy, a.gy.at(block.batch, block.head, first), a.gy.token, a.size.n - first, d);
  start(0, 0);

  const int warp_row = warp_first_row<D>();
  Query queries[stacks<D>][2];
  for_rows<D>(
      [&](int m, int half, int row) { queries[m][half] = Query(a, block.row(a.size), first + warp_row + row); });
  Rows<D, stacks<D>> gq;
  int stage = 0;
  for (std::int64_t j = 0; j < end; j += columns, stage ^= 1) {
    start(j + columns, stage ^ 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    auto p = multiply_rows<D, columns>(q + warp_row * pitch<D>, k.at(stage));
    auto slopes = multiply_rows<D, columns>(gy + warp_row * pitch<D>, v.at(stage));
    const Mask mask(a.size, first + warp_row, j);
    for_results(p, [&](int m, int j, int k, int, int) {
      queries[m][k / 2].apply(p.v[m][j][k], slopes.v[m][j][k], a.base_2_scale);
    });
    if (!mask.shows_all(columns)) hide(mask, true, p, slopes);
    multiply_columns<D, columns>(slopes, k.at(stage), gq);
    __syncthreads();
  }
  for_rows<D>([&](int m, int half, int row) {
    const std::int64_t i = first + warp_row + row;
    if (i < a.size.n) store_row<D>(gq, m, half, a.scale, a.gq.at(block.batch, block.head, i), d);
  });
}

}  // namespace

void run_flash(const AttentionBackwardArgs& a, void* ws) {
  const Backward args(a, ws);
  const AttentionSizes& s = args.size;
  const cudaStream_t stream = stream_of(a.gy.device);
  constexpr std::int64_t rows = block_size / dot_threads;  // of a block
  dots_kernel<<<static_cast<unsigned>((a.shift.numel() + rows - 1) / rows), block_size, 0, stream>>>(args);
  check_launch();
  visit_columns(s, [&](auto width) {
    constexpr int D = decltype(width)::value, own = 2 * block_rows<D>, most = D > 64 ? 16 : 32,
                  fewer = D > 64 ? 16 : 24;
    visit_tile_rows<D, own, most, fewer>(a.gy.device, [&](auto rows) {
      constexpr int columns = decltype(rows)::value, all = own + 4 * columns;
      if (a.gk.defined() || a.gv.defined()) launch_blocks<D>(keys_kernel<D, columns>, args, all, s.m, s.groups, stream);
      if (a.gq.defined()) launch_blocks<D>(queries_kernel<D, columns>, args, all, s.n, s.heads, stream);
    });
  });
}

}  // namespace bytetape::cuda
