// Cross entropy of a chunk of logits, whose gradient overwrites them. A block reads its row twice, the second time from
// the cache.
#include <limits>
#include <numbers>

#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/pointwise/approximate.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/reduce/loss.cuh"

namespace bytetape::cuda {
namespace {

constexpr int row_threads = 1024, warp_size = 32;  // two blocks, so that the second reading finds the rows in L2

/// The exponential of differences of logits that are stored as T. For 16 bits it is the GPU's, which has base 2.
template <class T, class C = compute_t<T>>
struct Exponents {
  static constexpr C unit = approximates<T> ? static_cast<C>(std::numbers::log2e) : C{1};

  /// Returns exp(difference) / exp(scaled / unit).
  __device__ static C exp(C difference, C scaled = 0) {
    if constexpr (approximates<T>)
      return approximate_exp2(difference * unit - scaled);
    else
      return ::exp(difference - scaled);
  }
};

/// The maximum of some logits, and the sum of exp(logit - max) (Milakov & Gimelshein, 2018).
template <class C>
struct MaxAndExps {
  C max = -std::numeric_limits<C>::infinity(), exps = 0;
};

/// Returns `max`, or 0 for -inf, because -inf - -inf is NaN.
template <class C>
__device__ C finite_shift(C max) {
  return max == -std::numeric_limits<C>::infinity() ? C{0} : max;
}

/// Has the same bits for (b, a), also where the compiler fuses the sum with the product.
template <class E, class C>
__device__ MaxAndExps<C> join(const MaxAndExps<C>& a, const MaxAndExps<C>& b) {
  const bool is_first = a.max >= b.max;
  const MaxAndExps<C>&more = is_first ? a : b, &less = is_first ? b : a;
  return {more.max, more.exps + less.exps * E::exp(less.max - finite_shift(more.max))};
}

/// Joins the values of a warp. Every lane gets the same bits.
template <class E, class C>
__device__ MaxAndExps<C> joined_in_warp(MaxAndExps<C> v) {
  for (int by = warp_size / 2; by > 0; by /= 2)
    v = join<E>(v, MaxAndExps<C>{__shfl_xor_sync(~0u, v.max, by), __shfl_xor_sync(~0u, v.exps, by)});
  return v;
}

/// Joins the values of all threads, in a fixed order. Every thread gets the result.
template <class E, class C>
__device__ MaxAndExps<C> joined(const MaxAndExps<C>& v) {
  static_assert(row_threads == warp_size * warp_size);
  __shared__ MaxAndExps<C> of_warps[warp_size];
  const auto of_warp = joined_in_warp<E>(v);
  if (threadIdx.x % warp_size == 0) of_warps[threadIdx.x / warp_size] = of_warp;
  __syncthreads();
  return joined_in_warp<E>(of_warps[threadIdx.x % warp_size]);
}

template <class T>
struct LogitRows {
  T* logits;
  std::int64_t pitch;
  bool writes;
  Targets targets;
  Column<compute_t<T>> losses;
  FaultSlot faults;
};

/// Calls f<n>(address, index) for the row's vectors of n = `lanes` elements, and for its last elements one by one.
template <int lanes, class T, class F>
__device__ void for_each_vector(T* row, std::int64_t size, const F& f) {
  const std::int64_t whole = size / lanes * lanes;
  for (std::int64_t j = std::int64_t{threadIdx.x} * lanes; j < whole; j += row_threads * lanes)
    f.template operator()<lanes>(row + j, j);
  for (std::int64_t j = whole + threadIdx.x; j < size; j += row_threads) f.template operator()<1>(row + j, j);
}

template <class T, int lanes>
__global__ void __launch_bounds__(row_threads) in_place_kernel(const __grid_constant__ LogitRows<T> a) {
  using C = compute_t<T>;
  const std::int64_t i = blockIdx.x, classes = a.targets.classes, t = a.targets.data[i];
  T* const row = a.logits + i * a.pitch;
  if (threadIdx.x == 0 && a.targets.is_fault(t))
    leave_if_first(a.faults, {Fault::Kind::target, t, classes}, i,
                   [&](std::int64_t r) { return a.targets.is_fault(a.targets.data[r]); });
  if (t == a.targets.ignore || !a.targets.is_class(t)) {
    if (threadIdx.x == 0) a.losses[i] = 0;
    if (a.writes) for_each_vector<lanes>(row, classes, [&]<int n>(T* x, std::int64_t) { Packed<T, n>{}.store(x); });
    return;
  }
  using E = Exponents<T>;
  const C wanted = widened(row[t]);
  MaxAndExps<C> mine;
  for_each_vector<lanes>(row, classes, [&]<int n>(const T* x, std::int64_t) {
    const auto stored = load<n>(x);
    C v[n], max = widened(stored.values[0]);
#pragma unroll
    for (int k = 0; k < n; ++k) v[k] = widened(stored.values[k]), max = ::fmax(max, v[k]);
    max = ::fmax(mine.max, max);
    const C shift = finite_shift(max);
    mine.exps *= E::exp(mine.max - shift);
#pragma unroll
    for (int k = 0; k < n; ++k) mine.exps += E::exp(v[k] - shift);
    mine.max = max;
  });
  const MaxAndExps<C> all = joined<E>(mine);
  const C log_exps = ::log(all.exps);
  if (threadIdx.x == 0) a.losses[i] = all.max - wanted + log_exps;
  if (!a.writes) return;
  for_each_vector<lanes>(row, classes, [&]<int n>(T* x, std::int64_t j) {
    auto v = load<n>(x);
    const bool has_target = j <= t && t < j + n;  // one of many vectors
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const C p = E::exp(widened(v.values[k]) - all.max, log_exps * E::unit);
      v.values[k] = narrowed<T>(has_target && j + k == t ? p - C{1} : p);
    }
    v.store(x);
  });
}

}  // namespace

void cross_entropy_in_place(const CrossEntropyInPlaceArgs& args) {
  const std::int64_t n = args.logits.shape[0], classes = args.logits.shape[1];
  if (n == 0) return;
  visit_floating(args.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int lanes = 16 / static_cast<int>(sizeof(T));
    const LogitRows<T> rows{args.logits.as<T>(),
                            args.logits.strides[0],
                            args.writes_gradient,
                            {args.target, classes, args.ignore},
                            column<compute_t<T>>(args.losses),
                            FaultSlot(args.losses.device)};
    const bool has_vectors = rows.pitch % lanes == 0 && is_aligned(args.logits);
    const auto kernel = has_vectors ? in_place_kernel<T, lanes> : in_place_kernel<T, 1>;
    kernel<<<static_cast<unsigned>(n), row_threads, 0, stream_of(args.logits.device)>>>(rows);
  });
  check_launch();
}

}  // namespace bytetape::cuda
