// Gradients of attention, which computes scores again from the log-sum-exp (Dao, "FlashAttention-2", 2023). With
// probabilities p and slopes = p (gy v^T - rowsum(gy y)): gv = p^T gy, gk = scale slopes^T q and gq = scale slopes k.
// A block of one kernel has the gradients of 64 keys, and goes through the queries. Another kernel has those of
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
  float2* notes;                // likewise
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
        notes(static_cast<float2*>(ws)),
        scale(static_cast<float>(a.in.scale)),
        base_2_scale(flash::base_2_scale(a.in)) {}

  static Tokens tokens_or_none(const View& x) {
    return Tokens(x.defined() ? ConstView(x) : ConstView(nullptr, DType::f32, x.device, {1, 1, 1, 1}, {0, 0, 0, 0}));
  }
};

/// A warp computes one product of 16 rows: more would leave too few registers for a second thread block.
constexpr int stacks = 1, rows = block_rows(stacks), warp_rows = 16 * stacks;

// The note of a query: x is its shift for exponentials with base 2, and y is rowsum(gy y).
__device__ float probability(float score, float scale, float2 note) { return approximate_exp2(score * scale - note.x); }
/// `product` is that of gy and a value.
__device__ float slope(float probability, float product, float2 note) { return probability * (product - note.y); }

/// Sets to 0 what shows(row, column) does not show.
template <int columns, class F>
__device__ void hide(Rows<columns, stacks>& results, const F& shows) {
  for_results(results, [&](int m, int j, int k, int row, int column) {
    if (!shows(row, column)) results.v[m][j][k] = 0;
  });
}

constexpr int note_threads = 8;  // of a row

__global__ void __launch_bounds__(block_size) notes_kernel(const __grid_constant__ Backward a) {
  const std::int64_t row = (std::int64_t{blockIdx.x} * block_size + threadIdx.x) / note_threads;
  const std::int64_t i = row % a.size.n, head = row / a.size.n % a.size.heads, batch = row / a.size.n / a.size.heads;
  const int lane = static_cast<int>(threadIdx.x) % note_threads;
  float dot = 0;
  if (batch < a.size.batch) {
    const float *const y = a.y.at(batch, head, i), *const gy = a.gy.at(batch, head, i);
    for (int c = 4 * lane; c < a.size.d; c += 4 * note_threads) {
      const float4 u = *reinterpret_cast<const float4*>(y + c), w = *reinterpret_cast<const float4*>(gy + c);
      dot += u.x * w.x + u.y * w.y + u.z * w.z + u.w * w.w;
    }
  }
  for (int by = note_threads / 2; by > 0; by /= 2) dot += __shfl_xor_sync(~0u, dot, by);
  // Products store another shift than the kernel for forward does.
  if (lane == 0 && batch < a.size.batch) a.notes[row] = make_float2(a.shift[row] * base_2 - log2f(a.factor[row]), dot);
}

/// Starts to copy the notes of `columns` queries behind the rows of their tile. Those from `count` on are 0.
template <int D, int columns>
__device__ void start_notes(float* tile, const float2* from, std::int64_t count) {
  const int i = static_cast<int>(threadIdx.x);
  static_assert(columns <= threads);
  if (i < columns)
    __pipeline_memcpy_async(tile + i * pitch<D> + D, i < count ? from + i : from, sizeof *from,
                            i < count ? 0 : sizeof *from);
}
template <int D>
__device__ float2 note_of(const float* tile, int row) {
  return *reinterpret_cast<const float2*>(tile + row * pitch<D> + D);
}

/// gk and gv. Rows are keys, and columns are queries.
template <int D, int columns>
__global__ void __launch_bounds__(threads, 2) keys_kernel(const __grid_constant__ Backward a) {
  extern __shared__ __align__(16) float shared[];
  float *const k = shared, *const v = k + tile_size<D, rows>;
  Stages<D, columns> q(v + tile_size<D, rows>), gy(q.end());
  const Block<rows> block(a.size, a.size.groups, false);
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
      start_notes<D, columns>(q.at(stage), a.notes + (block.batch * a.size.heads + head) * n + i, n - i);
    }
    __pipeline_commit();
  };
  start_copy<D, rows>(k, a.k.at(block.batch, block.head, first), a.k.token, a.size.m - first, d);
  start_copy<D, rows>(v, a.v.at(block.batch, block.head, first), a.v.token, a.size.m - first, d);
  start(0, 0);

  const int warp_row = warp_first_row<stacks>();
  const RowsInTile<D, stacks> keys(k + warp_row * pitch<D>), values(v + warp_row * pitch<D>);
  Rows<D, stacks> gk, gv;
  for (std::int64_t tile = 0; tile < all; ++tile) {
    const int stage = static_cast<int>(tile % 2);
    start(tile + 1, stage ^ 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    const std::int64_t i = begin + tile % tiles * columns;
    const Mask mask(a.size, i, first + warp_row);
    if (!mask.hides_all(columns)) {
      const int count = static_cast<int>(min(n - i, std::int64_t{columns}));  // queries that there are
      const bool hides = count < columns || !mask.shows_all(warp_rows);
      const auto shows = [&](int row, int column) { return column < count && mask.shows(column, row); };
      auto p = multiply_rows<D, columns>(keys, q.at(stage));
      for_results(p, [&](int m, int j, int c, int, int column) {
        p.v[m][j][c] = probability(p.v[m][j][c], a.base_2_scale, note_of<D>(q.at(stage), column));
      });
      if (hides) hide(p, shows);
      multiply_columns(p, gy.at(stage), gv);
      auto slopes = multiply_rows<D, columns>(values, gy.at(stage));
      for_results(slopes, [&](int m, int j, int c, int, int column) {
        slopes.v[m][j][c] = slope(p.v[m][j][c], slopes.v[m][j][c], note_of<D>(q.at(stage), column));
      });
      if (hides) hide(slopes, shows);  // a product may be infinite
      multiply_columns(slopes, q.at(stage), gk);
    }
    __syncthreads();
  }
  __pipeline_wait_prior(0);
  for_rows<stacks>([&](int m, int half, int row) {
    const std::int64_t j = first + warp_row + row;
    if (j >= a.size.m) return;
    if (a.gk.data) store_row(gk, m, half, a.scale, a.gk.at(block.batch, block.head, j), d);
    if (a.gv.data) store_row(gv, m, half, 1, a.gv.at(block.batch, block.head, j), d);
  });
}

/// gq. Rows are queries, and columns are keys.
template <int D, int columns>
__global__ void __launch_bounds__(threads, 2) queries_kernel(const __grid_constant__ Backward a) {
  extern __shared__ __align__(16) float shared[];
  float *const q = shared, *const gy = q + tile_size<D, rows>;
  Stages<D, columns> k(gy + tile_size<D, rows>), v(k.end());
  const Block<rows> block(a.size, a.size.heads, true);
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
  __pipeline_commit();
  start(0, 0);

  const int warp_row = warp_first_row<stacks>();
  float2 notes[stacks][2] = {};
  for_rows<stacks>([&](int m, int half, int row) {
    const std::int64_t i = first + warp_row + row;
    if (i < a.size.n) notes[m][half] = a.notes[block.row(a.size) + i];
  });
  __pipeline_wait_prior(1);
  __syncthreads();
  // With more columns, both do not fit into registers.
  using Own = std::conditional_t<(D > 64), RowsInTile<D, stacks>, RowsInRegisters<D, stacks>>;
  const Own queries(q + warp_row * pitch<D>), gradients(gy + warp_row * pitch<D>);
  Rows<D, stacks> gq;
  int stage = 0;
  for (std::int64_t j = 0; j < end; j += columns, stage ^= 1) {
    start(j + columns, stage ^ 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    const Mask mask(a.size, first + warp_row, j);
    if (!mask.hides_all(warp_rows)) {
      const auto p = multiply_rows<D, columns>(queries, k.at(stage));
      auto slopes = multiply_rows<D, columns>(gradients, v.at(stage));
      for_results(slopes, [&](int m, int g, int c, int, int) {
        const float2 note = notes[m][c / 2];
        slopes.v[m][g][c] = slope(probability(p.v[m][g][c], a.base_2_scale, note), slopes.v[m][g][c], note);
      });
      if (!mask.shows_all(columns)) hide(slopes, [&](int row, int column) { return mask.shows(row, column); });
      multiply_columns(slopes, k.at(stage), gq);
    }
    __syncthreads();
  }
  for_rows<stacks>([&](int m, int half, int row) {
    const std::int64_t i = first + warp_row + row;
    if (i < a.size.n) store_row(gq, m, half, a.scale, a.gq.at(block.batch, block.head, i), d);
  });
}

}  // namespace

void run_flash(const AttentionBackwardArgs& a, void* ws) {
  const Backward args(a, ws);
  const AttentionSizes& s = args.size;
  const cudaStream_t stream = stream_of(a.gy.device);
  constexpr std::int64_t queries = block_size / note_threads;  // of a block
  notes_kernel<<<static_cast<unsigned>((a.shift.numel() + queries - 1) / queries), block_size, 0, stream>>>(args);
  check_launch();
  visit_columns(s, [&](auto width) {
    constexpr int D = decltype(width)::value, own = 2 * rows, most = D > 64 ? 16 : 64, fewer = D > 64 ? 16 : 56;
    visit_tile_rows<D, own, most, fewer>(a.gy.device, [&](auto tile) {
      constexpr int columns = decltype(tile)::value, all = own + 4 * columns;
      if (a.gk.defined() || a.gv.defined())
        launch_blocks<D>(keys_kernel<D, columns>, args, rows, all, s.m, s.groups, stream);
      if (a.gq.defined()) launch_blocks<D>(queries_kernel<D, columns>, args, rows, all, s.n, s.heads, stream);
    });
  });
}

}  // namespace bytetape::cuda
