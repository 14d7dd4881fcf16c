// A row of scores belongs to a warp, or to a block if the row is long. A thread takes four adjacent scores at a time.
// Rows of scores are padded, so that the last vector may be stored whole. What it has beyond the last key is not used.
#include "bytetape/cuda/attention/attention_rows.h"

#include <limits>

#include "bytetape/core/philox.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

constexpr int warp = 32, lanes = 4;

/// Loads adjacent elements, of which `count` are keys. The others are 0.
template <class C>
__device__ Packed<C, lanes> load_keys(const C* from, std::int64_t count) {
  if (count >= lanes) return load<lanes>(from);
  Packed<C, lanes> v{};
#pragma unroll
  for (int k = 0; k < lanes; ++k)
    if (k < count) v.values[k] = from[k];
  return v;
}

/// The arguments of the kernels for a block of scores.
template <class C>
struct ScoreRows {
  static constexpr C infinity = std::numeric_limits<C>::infinity();

  AttentionSizes size;
  AttentionBlock block;
  std::int64_t pitch;
  const void* mask;
  std::int64_t mask_strides[4] = {};
  bool is_boolean, drops;
  C scale, kept_scale;  // kept_scale: 1 / (1 - p)
  std::uint32_t threshold;
  PhiloxState state;

  ScoreRows(const AttentionInputs& in, const AttentionBlocks& blocks, const AttentionBlock& block)
      : size(blocks.size),
        block(block),
        pitch(blocks.pitch),
        mask(in.mask.data()),
        is_boolean(in.mask.dtype == DType::boolean),
        drops(in.p > 0),
        scale(static_cast<C>(in.scale)),
        kept_scale(static_cast<C>(1 / (1 - in.p))),
        threshold(dropout_threshold(in.p)),
        state(in.state) {
    if (mask)
      for (int d = 0; d < 4; ++d) mask_strides[d] = in.mask.strides[d];
  }
};

/// A row of scores of a block.
template <class C>
struct Row {
  const ScoreRows<C>& r;
  std::int64_t number;  // among all rows of the attention
  std::int64_t mask;    // where its mask begins
  std::int64_t end;     // the end of the keys that its query may attend to
  std::int64_t scores;  // where its scores begin

  /// Row `at` of the block.
  __device__ Row(const ScoreRows<C>& r, std::int64_t at) : r(r), scores(at * r.pitch) {
    const AttentionBlock& b = r.block;
    const std::int64_t i = b.i + at % b.rows, of_heads = at / b.rows, of_groups = of_heads / b.heads;
    const std::int64_t head = (b.group + of_groups % b.groups) * r.size.heads_per_group() + b.head + of_heads % b.heads;
    const std::int64_t batch = b.batch + of_groups / b.groups;
    number = (batch * r.size.heads + head) * r.size.n + i;
    mask = batch * r.mask_strides[0] + head * r.mask_strides[1] + i * r.mask_strides[2];
    end = r.size.is_causal && i + 1 < b.keys ? i + 1 : b.keys;
  }

  /// Returns scale * product + mask for keys j.., and -inf for keys that the query may not attend to.
  __device__ Packed<C, lanes> masked(const C* products, std::int64_t j) const {
    Packed<C, lanes> s = load_keys(products + scores + j, r.block.keys - j);
#pragma unroll
    for (int k = 0; k < lanes; ++k)
      s.values[k] = j + k < end ? added_mask(s.values[k] * r.scale, j + k) : -ScoreRows<C>::infinity;
    return s;
  }

  /// Returns the factors of dropout for keys j..: 0 or 1 / (1 - p).
  __device__ Packed<C, lanes> kept(const PhiloxState& state, std::int64_t j) const {
    Packed<C, lanes> factors;
    for (C& f : factors.values) f = 1;
    if (!r.drops) return factors;
    const auto first = static_cast<std::uint64_t>(number * r.size.m + j), counter = state.offset + first / 4;
    std::uint32_t words[2 * lanes];
    draw(state.seed, counter, words);
    if (first % 4 != 0) draw(state.seed, counter + 1, words + lanes);
    if (first & 1) shift<1>(words);
    if (first & 2) shift<2>(words);
#pragma unroll
    for (int k = 0; k < lanes; ++k) factors.values[k] = dropout_keeps(words[k], r.threshold) ? r.kept_scale : C{0};
    return factors;
  }

 private:
  __device__ C added_mask(C score, std::int64_t j) const {
    if (!r.mask) return score;
    const std::int64_t at = mask + j * r.mask_strides[3];
    if (r.is_boolean) return static_cast<const bool*>(r.mask)[at] ? score : -ScoreRows<C>::infinity;
    return score + static_cast<const C*>(r.mask)[at];
  }
  __device__ static void draw(std::uint64_t seed, std::uint64_t counter, std::uint32_t* words) {
    const auto drawn = philox(seed, counter);
#pragma unroll
    for (int k = 0; k < lanes; ++k) words[k] = drawn[k];
  }
  /// Moves words forward, with constant indices, so that they stay in registers.
  template <int by>
  __device__ static void shift(std::uint32_t (&words)[2 * lanes]) {
#pragma unroll
    for (int k = 0; k + by < 2 * lanes; ++k) words[k] = words[k + by];
  }
};

template <class C>
__device__ C dropped(C v, C factor) {
  return factor == 0 ? C{0} : v * factor;  // 0 even if v is infinite
}

/// The row of this thread. Each kernel shares rows like with_grid().
__device__ std::int64_t own_row() { return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

// A first pass over the row finds its maximum and its sum, relative to the maximum so far (Milakov & Gimelshein,
// "Online normalizer calculation for softmax", 2018). A second one writes the probabilities. They may replace the
// scores, because a thread reads the scores that it replaces only.
template <class T, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size) softmax_kernel(const __grid_constant__ ScoreRows<C> r, const C* products,
                                                             T* probabilities, C* row_shift, C* row_factor) {
  constexpr int warps = block_size / warp;
  constexpr C infinity = ScoreRows<C>::infinity;
  const std::int64_t at = own_row(), step = lanes * std::int64_t{blockDim.x};
  const bool is_there = at < r.block.count();  // no thread returns early, because reductions need all
  const Row<C> row(r, is_there ? at : 0);
  C best = -infinity, sum = 0;
  for (std::int64_t j = lanes * threadIdx.x; is_there && j < row.end; j += step) {
    const auto s = row.masked(products, j);
    for (const C score : s.values)
      if (score > best) {
        sum = sum * ::exp(best - score) + 1;
        best = score;
      } else if (score != -infinity) {
        sum += ::exp(score - best);
      }
  }
  const auto larger = [](C a, C b) { return max(a, b); };
  const C largest = reduce_block<WarpOrder::tree, warps>(larger, best, static_cast<int>(blockDim.x));
  const C pivot = largest == -infinity ? C{0} : largest;
  sum = reduce_block<WarpOrder::tree, warps>(Plus(), sum * ::exp(best - pivot), static_cast<int>(blockDim.x));
  if (!is_there) return;
  const C factor = sum != 0 ? 1 / sum : C{0};
  if (threadIdx.x == 0) {
    row_shift[row.number] = pivot;
    row_factor[row.number] = factor;
  }
  const PhiloxState state = started(r.state);
  for (std::int64_t j = lanes * threadIdx.x; j < r.block.keys; j += step) {
    const auto s = row.masked(products, j), kept = row.kept(state, j);
    Packed<T, lanes> p;
#pragma unroll
    for (int k = 0; k < lanes; ++k)
      p.values[k] = narrowed<T>(dropped(::exp(s.values[k] - pivot) * factor, kept.values[k]));
    p.store(probabilities + row.scores + j);
  }
}

// With P the probabilities: weights = dropout(P), and slopes = scale P (dropout(gradients) - dots).
template <class T, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size)
    slope_kernel(const __grid_constant__ ScoreRows<C> r, const C* products, const C* gradients, const C* row_shift,
                 const C* row_factor, const C* dots, T* weights, T* slopes) {
  const std::int64_t at = own_row();
  if (at >= r.block.count()) return;
  const Row<C> row(r, at);
  const C shift = row_shift[row.number], factor = row_factor[row.number];
  const C dot = slopes ? dots[row.number] : C{0};
  const PhiloxState state = started(r.state);
  for (std::int64_t j = lanes * threadIdx.x; j < r.block.keys; j += lanes * std::int64_t{blockDim.x}) {
    const auto s = row.masked(products, j), kept = row.kept(state, j);
    Packed<C, lanes> p;
#pragma unroll
    for (int k = 0; k < lanes; ++k) p.values[k] = ::exp(s.values[k] - shift) * factor;
    if (weights) {
      Packed<T, lanes> w;
#pragma unroll
      for (int k = 0; k < lanes; ++k) w.values[k] = narrowed<T>(dropped(p.values[k], kept.values[k]));
      w.store(weights + row.scores + j);
    }
    if (slopes) {
      const auto g = load_keys(gradients + row.scores + j, r.block.keys - j);
      Packed<T, lanes> gs;
#pragma unroll
      for (int k = 0; k < lanes; ++k)
        gs.values[k] = narrowed<T>(p.values[k] * (dropped(g.values[k], kept.values[k]) - dot) * r.scale);
      gs.store(slopes + row.scores + j);
    }
  }
}

/// Two tensors (b, h, n, e).
struct Operands {
  std::int64_t heads, n, e, count, gy_strides[4], y_strides[4];
};

/// A warp takes a row.
template <class T, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size) dot_kernel(Operands o, const T* gy, const T* y, C* dots) {
  const std::int64_t row = own_row();
  if (row >= o.count) return;
  const std::int64_t at[3] = {row / o.n / o.heads, row / o.n % o.heads, row % o.n};
  for (int d = 0; d < 3; ++d) gy += at[d] * o.gy_strides[d], y += at[d] * o.y_strides[d];
  C sum[1] = {};
  for (std::int64_t c = threadIdx.x; c < o.e; c += warp)
    sum[0] += widened(gy[c * o.gy_strides[3]]) * widened(y[c * o.y_strides[3]]);
  reduce_warp(Plus(), sum);
  if (threadIdx.x == 0) dots[row] = sum[0];
}

/// Calls f(blocks, threads) for `rows` rows of `columns` elements.
template <class F>
void with_grid(std::int64_t rows, std::int64_t columns, const F& f) {
  constexpr std::int64_t most = 32 * warp;  // columns of a warp
  const dim3 threads = columns <= most ? dim3(warp, block_size / warp) : dim3(block_size);
  f(static_cast<unsigned>((rows + threads.y - 1) / threads.y), threads);
}

}  // namespace

void softmax_rows(const AttentionForward& f, const AttentionBlock& b) {
  visit_floating(f.a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    with_grid(b.count(), b.keys, [&](unsigned blocks, dim3 threads) {
      softmax_kernel<T><<<blocks, threads, 0, stream_of(f.a.y.device)>>>(
          ScoreRows<C>(f.a.in, f.blocks, b), static_cast<const C*>(f.scores), static_cast<T*>(f.probabilities),
          f.a.shift.as<C>(), f.a.factor.as<C>());
    });
  });
  check_launch();
}

void multiply_rows(const AttentionBackward& f) {
  const ConstView &gy = f.a.gy, &y = f.a.y;
  Operands o{gy.shape[1], gy.shape[2], gy.shape[3], gy.shape[0] * gy.shape[1] * gy.shape[2], {}, {}};
  for (int d = 0; d < 4; ++d) o.gy_strides[d] = gy.strides[d], o.y_strides[d] = y.strides[d];
  visit_floating(gy.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_grid(o.count, 1, [&](unsigned blocks, dim3 threads) {
      dot_kernel<T>
          <<<blocks, threads, 0, stream_of(gy.device)>>>(o, gy.as<T>(), y.as<T>(), static_cast<compute_t<T>*>(f.dots));
    });
  });
  check_launch();
}

void slope_rows(const AttentionBackward& f, const AttentionBlock& b) {
  visit_floating(f.a.gy.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    with_grid(b.count(), b.keys, [&](unsigned blocks, dim3 threads) {
      slope_kernel<T><<<blocks, threads, 0, stream_of(f.a.gy.device)>>>(
          ScoreRows<C>(f.a.in, f.blocks, b), static_cast<const C*>(f.scores), static_cast<const C*>(f.slopes),
          f.a.shift.as<C>(), f.a.factor.as<C>(), static_cast<const C*>(f.dots), static_cast<T*>(f.weights),
          static_cast<T*>(f.narrow_slopes));
    });
  });
  check_launch();
}

}  // namespace bytetape::cuda
