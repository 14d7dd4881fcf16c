#pragma once
// Elementwise kernels y = f(x...), the counterpart of core/cpu/elementwise.h. A thread handles a vector of 16 bytes if,
// in each operand, the innermost dim is dense or repeats one element. That covers dense tensors and broadcast rows or
// channels. Else it handles one element.
#include <algorithm>
#include <utility>

#include "bytetape/core/view.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/index.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace detail {

/// An input: memory, or a number if `data` is null.
template <class T>
struct Source {
  const T* data;
  compute_t<T> number;

  explicit Source(const ConstView& x)
      : data(x.as<T>()), number(x.is_constant() ? static_cast<compute_t<T>>(constant(x)) : compute_t<T>{}) {}
  __device__ compute_t<T> at(std::int64_t i) const { return data ? widened(data[i]) : number; }

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

/// Loads n elements from index i on, or element i n times if `repeats`.
template <int n, class T>
__device__ Lanes<compute_t<T>, n> load(const Source<T>& x, std::int64_t i, bool repeats) {
  Lanes<compute_t<T>, n> wide;
  if (x.data && !repeats) {
    const auto packed = Packed<T, n>::load(x.data + i);
    for (int k = 0; k < n; ++k) wide.values[k] = widened(packed.values[k]);
  } else {
    const compute_t<T> one = x.at(i);
    for (int k = 0; k < n; ++k) wide.values[k] = one;
  }
  return wide;
}

/// Converts a result of f to the stored type.
template <class Out, class V>
__device__ Out stored(V v) {
  if constexpr (std::is_same_v<Out, V>)
    return v;
  else
    return narrowed<Out>(static_cast<compute_t<Out>>(v));
}

template <int n, class Out, class F, class... V>
__device__ void apply(const F& f, Out* y, const V&... x) {
  Packed<Out, n> out;
  for (int k = 0; k < n; ++k) out.values[k] = stored<Out>(f(x.values[k]...));
  out.store(y);
}

/// The elements of a launch. A step of the walk is a vector of n elements. `tail` single elements follow the last
/// vector.
template <int K>
struct Range {
  Steps<K, std::uint32_t> steps;
  std::uint32_t tail;
  __device__ bool repeats(int k) const { return steps.strides[k][0] == 0; }
};

template <int n, class Out, class F, std::size_t... k, class... In>
__device__ void apply_at(const F& f, const Range<sizeof...(In) + 1>& range, const std::int64_t* offsets, Out* y,
                         std::index_sequence<k...>, const Source<In>&... x) {
  if constexpr (n == 1)
    y[offsets[0]] = stored<Out>(f(x.at(offsets[k + 1])...));
  else
    apply<n>(f, y + offsets[0], load<n>(x, offsets[k + 1], range.repeats(k + 1))...);
}

template <int n, class Out, class F, class... In>
__global__ void __launch_bounds__(block_size)
    elementwise_kernel(F f, Range<sizeof...(In) + 1> range, Out* y, Source<In>... x) {
  constexpr int K = sizeof...(In) + 1;
  const auto& steps = range.steps;
  const std::uint32_t thread = blockIdx.x * block_size + threadIdx.x;
  std::int64_t offsets[K];
  for (std::uint32_t i = thread; i < steps.count; i += gridDim.x * block_size) {
    steps.find(i, offsets);
    apply_at<n>(f, range, offsets, y, std::index_sequence_for<In...>(), x...);
  }
  if constexpr (n > 1) {
    if (thread >= range.tail) return;
    steps.find(steps.count, offsets);
    for (int k = 0; k < K; ++k) offsets[k] += range.repeats(k) ? 0 : thread;
    apply_at<1>(f, range, offsets, y, std::index_sequence_for<In...>(), x...);
  }
}

/// An operand without its element type, for the launch.
struct Operand {
  const ConstView& view;
  std::size_t size;  // bytes of an element

  /// Whether the operand can be walked by `strides` in vectors: each is aligned and adjacent, or repeats one element.
  bool packs(const Strides& strides, int lanes) const {
    if (strides.back() == 0) return true;
    if (strides.back() != 1 || !is_aligned(view, size * lanes)) return false;
    for (int d = 0; d + 1 < strides.size(); ++d)
      if (strides[d] % lanes != 0) return false;
    return true;
  }
};

/// Plans the walk of y and the inputs. y has n elements.
template <int K>
Walk<K> plan_walk(const std::array<Operand, K>& operands, std::int64_t n) {
  const ConstView& y = operands[0].view;
  Walk<K> walk;
  if (std::all_of(
          operands.begin() + 1, operands.end(),
          [&](const Operand& x) { return x.view.is_constant() || same_layout(y.shape, y.strides, x.view.strides); }) &&
      (y.is_contiguous() || is_dense(y.shape, y.strides))) {  // usually there is one dim
    walk.shape.push_back(n);
    for (int k = 0; k < K; ++k) walk.strides[k].push_back(operands[k].view.is_constant() ? 0 : 1);
    return walk;
  }
  const Strides none = Dims::filled(y.rank(), 0);
  std::array<const Strides*, K> strides;
  for (int k = 0; k < K; ++k) strides[k] = operands[k].view.is_constant() ? &none : &operands[k].view.strides;
  walk = Walk<K>(y.shape, strides);
  walk.complete();
  return walk;
}

/// Launches a kernel over a walk from the offsets `first` on. Splits the walk if it is too large for one launch.
template <int K>
void launch_over(const Walk<K>& walk, std::array<std::int64_t, K> first, std::uint32_t tail, const void* kernel,
                 void** arguments, Device device) {
  if (numel(walk.shape) >= index_limit) {
    const auto longest = static_cast<int>(std::max_element(walk.shape.begin(), walk.shape.end()) - walk.shape.begin());
    Walk<K> low = walk, high = walk;
    low.shape[longest] /= 2;
    high.shape[longest] -= low.shape[longest];
    launch_over<K>(low, first, tail, kernel, arguments, device);
    for (int k = 0; k < K; ++k) first[k] += low.shape[longest] * walk.strides[k][longest];
    return launch_over<K>(high, first, tail, kernel, arguments, device);
  }
  Range<K> range{Steps<K, std::uint32_t>(walk, first), tail};
  arguments[1] = &range;
  cudaLaunchKernel(kernel, blocks_for(range.steps.count, device), block_size, arguments, 0, stream_of(device));
  check_launch();
}

/// Launches one of two kernels, over vectors of `lanes` elements or over single elements. This code does not depend on
/// dtypes, because compiling it for each takes long.
template <int K>
void launch(const std::array<Operand, K>& operands, int lanes, const void* of_vectors, const void* of_elements,
            void** arguments) {
  const ConstView& y = operands[0].view;
  const std::int64_t n = y.numel();
  if (n == 0) return;
  Walk<K> walk = plan_walk<K>(operands, n);
  const int last = walk.shape.size() - 1;
  const bool is_whole = walk.shape[last] % lanes == 0;
  // All elements of an expanded result share one place, so no vectors may be written.
  bool packs = walk.strides[0][last] == 1 && (is_whole || (last == 0 && n < index_limit));
  for (int k = 0; k < K; ++k) packs = packs && operands[k].packs(walk.strides[k], lanes);
  if (packs) {
    walk.shape[last] /= lanes;
    for (Strides& s : walk.strides) s[last] *= lanes;
  }
  const auto tail = static_cast<std::uint32_t>(packs && !is_whole ? n % lanes : 0);
  launch_over<K>(walk, {}, tail, packs ? of_vectors : of_elements, arguments, y.device);
}

}  // namespace detail

/// Launches y = f(x...). Out and In are the stored element types. f gets values of the computed types.
template <class Out, class... In, class F, class... X>
void elementwise(const F& f, const View& y, const X&... x) {
  constexpr int lanes = static_cast<int>(16 / std::max({sizeof(Out), sizeof(In)...}));
  Out* to = y.as<Out>();
  [&](auto... from) {
    void* arguments[] = {const_cast<F*>(&f), nullptr, &to, &from...};
    detail::launch<sizeof...(In) + 1>({detail::Operand{y, sizeof(Out)}, detail::Operand{x, sizeof(In)}...}, lanes,
                                      reinterpret_cast<const void*>(detail::elementwise_kernel<lanes, Out, F, In...>),
                                      reinterpret_cast<const void*>(detail::elementwise_kernel<1, Out, F, In...>),
                                      arguments);
  }(detail::Source<In>(x)...);
}

}  // namespace bytetape::cuda
