// Attention of new tokens to a cache. A block computes one query. Its threads form groups. A group takes every n-th
// key, and each of its threads eight columns of the head, in vectors of `width`. A group keeps a running maximum, a sum
// and an output of its own (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018). At the end the
// block combines the groups in a fixed order.
//
// The keys and values of new tokens are read from k and v, because other blocks may not have written them to the cache
// yet. The block of the first head that reads a head of the cache writes them there.
#include "bytetape/core/kernels/cached_attention.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int columns = 8;  // of a thread
constexpr int warps = block_size / 32;
static_assert(most_cached_columns == 32 * columns, "a group is at most a warp");
static_assert(most_cached_columns <= block_size, "a thread stores at most one column");

/// A tensor (n, heads, tokens, d).
template <class T>
struct Tokens {
  T* data;
  std::int64_t strides[4];

  template <class V>
  explicit Tokens(const V& x) : data(x.template as<std::remove_const_t<T>>()) {
    std::copy_n(x.strides.begin(), 4, strides);
  }
  __device__ T* at(std::int64_t row, std::int64_t head, std::int64_t token) const {
    return data + row * strides[0] + head * strides[1] + token * strides[2];
  }
};

template <class T>
struct Arguments {
  Tokens<const T> q, k, v;
  Tokens<T> keys, values, y;
  const std::int64_t* positions;
  std::int64_t position_step, bound;  // of positions
  std::int64_t rows, heads, heads_per_group, tokens;
  int d, along;  // columns of a head, threads of a group
  compute_t<T> scale;
  FaultSlot faults;

  explicit Arguments(const CachedAttentionArgs& a)
      : q(a.q),
        k(a.k),
        v(a.v),
        keys(a.keys),
        values(a.values),
        y(a.y),
        positions(a.positions.as<std::int64_t>()),
        position_step(a.positions.strides[0]),
        bound(a.bound()),
        rows(a.q.shape[0]),
        heads(a.q.shape[1]),
        heads_per_group(a.q.shape[1] / a.k.shape[1]),
        tokens(a.q.shape[2]),
        d(static_cast<int>(a.q.shape[3])),
        along(static_cast<int>(std::bit_ceil(static_cast<unsigned>(d + columns - 1) / columns))),
        scale(static_cast<compute_t<T>>(a.scale)),
        faults(a.y.device) {}

  __device__ std::int64_t position(std::int64_t row) const { return positions[row * position_step]; }
  __device__ bool is_valid(std::int64_t row) const { return position(row) >= 0 && position(row) < bound; }
  /// Whether all positions are valid. Reports a fault of the first that is not. All threads of a block must call this.
  __device__ bool check_positions() const {
    bool are_valid = true;
    for (std::int64_t row = threadIdx.x; row < rows; row += block_size) are_valid = are_valid && is_valid(row);
    if (__syncthreads_and(are_valid)) return true;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      std::int64_t row = 0;
      while (is_valid(row)) ++row;
      leave(faults, {Fault::Kind::position, position(row), bound});
    }
    return false;
  }
};

/// A thread's columns of a token. Vector p of the group's thread t has the columns from (p * along + t) * width on.
template <class T, int width>
struct Columns {
  using C = compute_t<T>;
  static constexpr int vectors = columns / width;
  Packed<T, width> packed[vectors];

  /// Columns from d on are 0, and so are all columns if `is_there` is false.
  __device__ void load(const T* token, std::int64_t step, int d, int along, bool is_there) {
#pragma unroll
    for (int p = 0; p < vectors; ++p) {
      const int c = (p * along + static_cast<int>(threadIdx.x) % along) * width;
      if (is_there && c < d)
        packed[p] = Packed<T, width>::load(token + (width == 1 ? c * step : c));
      else
        for (T& value : packed[p].values) value = T{};
    }
  }
  __device__ C operator[](int i) const { return widened(packed[i / width].values[i % width]); }
};

/// The softmax of some of a query's keys so far: their largest score, the sum of exponentials relative to it, and the
/// thread's columns of the sum of values with these weights.
template <class C>
struct Partial {
  static constexpr C infinity = std::numeric_limits<C>::infinity();
  C largest = -infinity, sum = 0, out[columns] = {};

  /// Multiplies by exp(largest - pivot), so that the sums are relative to the pivot.
  __device__ void rescale(C pivot) {
    const C factor = largest == -infinity ? C{0} : ::exp(largest - pivot);
    sum *= factor;
#pragma unroll
    for (C& o : out) o *= factor;
  }
};

template <class C>
struct Larger {
  __device__ C operator()(C a, C b) const { return max(a, b); }
};

/// Computes the softmax of the group's keys among the keys before `end`.
template <class T, int width, class C = compute_t<T>>
__device__ Partial<C> attend(const Arguments<T>& a, std::int64_t row, std::int64_t head, std::int64_t i) {
  constexpr int together = 4;  // keys whose loads are in flight at once
  const std::int64_t kv_head = head / a.heads_per_group, cached = a.position(row), end = cached + i + 1;
  const int groups = block_size / a.along, group = static_cast<int>(threadIdx.x) / a.along;
  Columns<T, width> query;
  query.load(a.q.at(row, head, i), a.q.strides[3], a.d, a.along, true);
  Partial<C> partial;
  // The number of rounds is the block's, because all threads of a warp take part in its reductions.
  for (std::int64_t first = 0; first < end; first += groups * together) {
    C scores[together];
    Columns<T, width> values[together];
#pragma unroll
    for (int u = 0; u < together; ++u) {
      const std::int64_t j = first + u * groups + group;
      const bool is_cached = j < cached, is_there = j < end;
      const auto load = [&](Columns<T, width>& to, const Tokens<T>& cache, const Tokens<const T>& fresh) {
        const T* const token = is_cached ? cache.at(row, kv_head, j) : fresh.at(row, kv_head, j - cached);
        to.load(token, is_cached ? cache.strides[3] : fresh.strides[3], a.d, a.along, is_there);
      };
      Columns<T, width> key;
      load(key, a.keys, a.k);
      load(values[u], a.values, a.v);
      C score = 0;
#pragma unroll
      for (int c = 0; c < columns; ++c) score += query[c] * key[c];
      scores[u] = score;
    }
    reduce_warp(Plus(), scores, a.along);
    C largest = partial.largest;
#pragma unroll
    for (int u = 0; u < together; ++u) {
      scores[u] = first + u * groups + group < end ? scores[u] * a.scale : -Partial<C>::infinity;
      largest = max(largest, scores[u]);
    }
    if (largest == -Partial<C>::infinity) continue;  // the group has no key yet
    partial.rescale(largest);
    partial.largest = largest;
#pragma unroll
    for (int u = 0; u < together; ++u) {
      const C weight = ::exp(scores[u] - largest);
      partial.sum += weight;
#pragma unroll
      for (int c = 0; c < columns; ++c) partial.out[c] += weight * values[u][c];
    }
  }
  return partial;
}

/// Stores new token i's key and value in the cache.
template <class T>
__device__ void write_token(const Arguments<T>& a, std::int64_t row, std::int64_t kv_head, std::int64_t i) {
  const auto write = [&](const Tokens<const T>& from, const Tokens<T>& cache) {
    const T* const token = from.at(row, kv_head, i);
    T* const to = cache.at(row, kv_head, a.position(row) + i);
    for (int c = static_cast<int>(threadIdx.x); c < a.d; c += block_size)
      to[c * cache.strides[3]] = token[c * from.strides[3]];
  };
  write(a.k, a.keys);
  write(a.v, a.values);
}

template <class T, int width, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size) cached_attention_kernel(const __grid_constant__ Arguments<T> a) {
  const std::int64_t block = blockIdx.x, i = block % a.tokens, head = block / a.tokens % a.heads,
                     row = block / a.tokens / a.heads;
  const int column = static_cast<int>(threadIdx.x), group = column / a.along, groups = block_size / a.along;
  T* const y = a.y.at(row, head, i) + column * a.y.strides[3];
  if (!a.check_positions()) {
    if (column < a.d) *y = T{};
    return;
  }
  if (head % a.heads_per_group == 0) write_token(a, row, head / a.heads_per_group, i);
  Partial<C> partial = attend<T, width>(a, row, head, i);
  partial.rescale(reduce_block<WarpOrder::tree, warps>(Larger<C>(), partial.largest, block_size));
  // All threads of a group have its sum. One counts.
  const C mine = column % a.along == 0 ? partial.sum : C{0};
  const C sum = reduce_block<WarpOrder::tree, warps>(Plus(), mine, block_size);
  __shared__ C outs[block_size * columns];  // (groups, along * columns)
  const int pitch = a.along * columns;
#pragma unroll
  for (int c = 0; c < columns; ++c)
    outs[group * pitch + (c / width * a.along + column % a.along) * width + c % width] = partial.out[c];
  __syncthreads();
  if (column >= a.d) return;
  C total = 0;
  for (int g = 0; g < groups; ++g) total += outs[g * pitch + column];
  *y = narrowed<T>(total / sum);
}

/// Whether all tokens of x are vectors of `width` elements at aligned addresses.
template <class T>
bool has_vectors(const ConstView& x, int width) {
  if (x.shape[3] % width != 0 || x.strides[3] != 1 || !is_aligned(x, sizeof(T) * static_cast<std::size_t>(width)))
    return false;
  for (int d = 0; d < 3; ++d)
    if (x.shape[d] > 1 && x.strides[d] % width != 0) return false;
  return true;
}

void cached_attention(const CachedAttentionArgs& a) {
  if (a.y.numel() == 0) return;
  visit_floating(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int width = 16 / sizeof(T);
    const auto blocks = static_cast<unsigned>(a.q.shape[0] * a.q.shape[1] * a.q.shape[2]);
    const bool are_vectors = has_vectors<T>(a.q, width) && has_vectors<T>(a.k, width) && has_vectors<T>(a.v, width) &&
                             has_vectors<T>(a.keys, width) && has_vectors<T>(a.values, width);
    const auto kernel = are_vectors ? cached_attention_kernel<T, width> : cached_attention_kernel<T, 1>;
    kernel<<<blocks, block_size, 0, stream_of(a.y.device)>>>(Arguments<T>(a));
  });
  check_launch();
}

}  // namespace

const CachedAttentionKernels& cached_attention_kernels() {
  static const CachedAttentionKernels all{
      .cached_attention = cached_attention,
  };
  return all;
}

}  // namespace bytetape::cuda
