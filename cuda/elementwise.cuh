#pragma once
// y = f(x...) element by element, the counterpart of core/cpu/elementwise.h: two kernels, one that walks dense memory
// in vectors of 16 bytes, one that finds each element by its strides.
#include <algorithm>
#include <utility>

#include "bytetape/core/view.h"
#include "bytetape/core/visit.h"
#include "bytetape/core/walk.h"
#include "bytetape/cuda/launch.h"

namespace bytetape::cuda {
namespace detail {

/// An input: memory, or where `data` is null a number.
template <class T>
struct Source {
  const T* data;
  compute_t<T> number;

  explicit Source(const ConstView& x)
      : data(x.as<T>()), number(x.is_constant() ? static_cast<compute_t<T>>(constant(x)) : compute_t<T>{}) {}
  __device__ compute_t<T> at(std::int64_t i) const { return data ? static_cast<compute_t<T>>(data[i]) : number; }

 private:
  static compute_t<T> constant(const ConstView& x) {
    if constexpr (std::is_integral_v<T>)
      return *reinterpret_cast<const T*>(&x.constant_bits());
    else
      return static_cast<compute_t<T>>(x.number());
  }
};

template <class T, int n>
struct alignas(sizeof(T) * n) Lanes {
  T values[n];
};

template <int n, class T>
__device__ Lanes<compute_t<T>, n> load(const Source<T>& x, std::int64_t i) {
  Lanes<compute_t<T>, n> wide;
  if (x.data) {
    const auto packed = *reinterpret_cast<const Lanes<T, n>*>(x.data + i);
    for (int k = 0; k < n; ++k) wide.values[k] = static_cast<compute_t<T>>(packed.values[k]);
  } else {
    for (int k = 0; k < n; ++k) wide.values[k] = x.number;
  }
  return wide;
}

/// f's result as it is stored.
template <class Out, class V>
__device__ Out stored(V v) {
  if constexpr (std::is_same_v<Out, V>)
    return v;
  else
    return static_cast<Out>(static_cast<compute_t<Out>>(v));
}

template <int n, class Out, class F, class... V>
__device__ void apply(const F& f, Out* y, const V&... x) {
  Lanes<Out, n> out;
  for (int k = 0; k < n; ++k) out.values[k] = stored<Out>(f(x.values[k]...));
  *reinterpret_cast<Lanes<Out, n>*>(y) = out;
}

template <int n, class Out, class F, class... In>
__global__ void __launch_bounds__(block_size) dense_kernel(F f, std::int64_t count, Out* y, Source<In>... x) {
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t v = std::int64_t{blockIdx.x} * block_size + threadIdx.x; v * n < count; v += step) {
    const std::int64_t i = v * n;
    if (i + n <= count)
      apply<n>(f, y + i, load<n>(x, i)...);
    else
      for (std::int64_t k = i; k < count; ++k) y[k] = stored<Out>(f(x.at(k)...));
  }
}

/// A walk that a kernel takes as an argument; sizes and steps of I.
template <int K, class I>
struct Steps {
  int rank = 0;
  I count = 1, sizes[max_rank], strides[K][max_rank];

  explicit Steps(Walk<K> walk) {
    walk.complete();
    rank = walk.shape.size();
    for (int d = 0; d < rank; ++d) {
      sizes[d] = static_cast<I>(walk.shape[d]);
      count *= sizes[d];
      for (int k = 0; k < K; ++k) strides[k][d] = static_cast<I>(walk.strides[k][d]);
    }
  }
  /// Offsets of element i, counted with the last dim innermost.
  __device__ void find(I i, I (&offsets)[K]) const {
    for (int k = 0; k < K; ++k) offsets[k] = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const I rest = i / sizes[d], at = i - rest * sizes[d];
      for (int k = 0; k < K; ++k) offsets[k] += at * strides[k][d];
      i = rest;
    }
  }
};

template <class Out, class F, class I, std::size_t... k, class... In>
__device__ void apply_at(const F& f, Out* y, const I* offsets, std::index_sequence<k...>, const Source<In>&... x) {
  y[offsets[0]] = stored<Out>(f(x.at(offsets[k + 1])...));
}

template <class I, class Out, class F, class... In>
__global__ void __launch_bounds__(block_size)
    strided_kernel(F f, Steps<sizeof...(In) + 1, I> steps, Out* y, Source<In>... x) {
  const I step = static_cast<I>(gridDim.x) * block_size;
  for (I i = static_cast<I>(blockIdx.x) * block_size + threadIdx.x; i < steps.count; i += step) {
    I offsets[sizeof...(In) + 1];
    steps.find(i, offsets);
    apply_at(f, y, offsets, std::index_sequence_for<In...>(), x...);
  }
}

template <class T>
bool is_aligned(const ConstView& x, int lanes) {
  return x.is_constant() || reinterpret_cast<std::uintptr_t>(x.data()) % (sizeof(T) * lanes) == 0;
}

/// Elements from the first that a walk may reach, and one more.
inline std::int64_t reach(const ConstView& x) {
  std::int64_t last = 0;
  for (int d = 0; d < x.rank(); ++d) last += (x.shape[d] - 1) * x.strides[d];
  return last + 1;
}

}  // namespace detail

/// Out and In are the element types stored; f is called with values of the computed types.
template <class Out, class... In, class F, class... X>
void elementwise(const F& f, const View& y, const X&... x) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  constexpr std::size_t widest = std::max({sizeof(Out), sizeof(In)...});
  constexpr int lanes = widest >= 16 ? 1 : static_cast<int>(16 / widest);
  const bool is_dense = bytetape::is_dense(y.shape, y.strides) &&
                        ((x.is_constant() || same_layout(y.shape, y.strides, x.strides)) && ...);
  if (is_dense && detail::is_aligned<Out>(y, lanes) && (detail::is_aligned<In>(x, lanes) && ...)) {
    detail::dense_kernel<lanes, Out, F, In...>
        <<<blocks_for((n + lanes - 1) / lanes, y.device), block_size, 0, stream>>>(f, n, y.as<Out>(),
                                                                                   detail::Source<In>(x)...);
  } else {
    const Strides none = Dims::filled(y.rank(), 0);
    const Walk<sizeof...(In) + 1> walk(y.shape, {&y.strides, (x.is_constant() ? &none : &x.strides)...});
    const bool is_small = std::max({n, detail::reach(y), (x.is_constant() ? std::int64_t{1} : detail::reach(x))...}) <
                          std::int64_t{1} << 31;
    const auto launch = [&](auto index) {
      using I = decltype(index);
      detail::strided_kernel<I, Out, F, In...><<<blocks_for(n, y.device), block_size, 0, stream>>>(
          f, detail::Steps<sizeof...(In) + 1, I>(walk), y.as<Out>(), detail::Source<In>(x)...);
    };
    is_small ? launch(std::uint32_t{}) : launch(std::int64_t{});
  }
  check_launch();
}

}  // namespace bytetape::cuda
