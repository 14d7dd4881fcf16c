// Thread c draws the four words of Philox counter c, and drops and scales the four elements that they belong to.
#include <array>

#include "bytetape/core/philox.h"
#include "bytetape/cuda/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int count = 4;  // elements of a counter

template <class T>
struct Dropout {
  using C = compute_t<T>;
  PhiloxState state;
  std::uint32_t threshold;
  C scale;

  Dropout(const PhiloxState& state, double p)
      : state(state), threshold(dropout_threshold(p)), scale(static_cast<C>(1 / (1 - p))) {}
  __device__ std::array<std::uint32_t, 4> words(std::int64_t counter) const {
    return philox(state.seed, state.offset + static_cast<std::uint64_t>(counter));
  }
  __device__ T operator()(std::uint32_t word, T x) const {
    return static_cast<T>(dropout_keeps(word, threshold) ? static_cast<C>(x) * scale : C{0});
  }
};

/// For x and y that are row-major; they may be the same memory.
template <class T>
__global__ void __launch_bounds__(block_size)
    dense_dropout(Dropout<T> f, const T* x, T* y, std::int64_t n, bool is_aligned) {
  using Vector = detail::Lanes<T, count>;
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t c = std::int64_t{blockIdx.x} * block_size + threadIdx.x; c * count < n; c += step) {
    const std::int64_t first = c * count;
    if (is_aligned && first + count <= n) {
      auto v = *reinterpret_cast<const Vector*>(x + first);
      const auto words = f.words(c);
      for (int k = 0; k < count; ++k) v.values[k] = f(words[k], v.values[k]);
      *reinterpret_cast<Vector*>(y + first) = v;
    } else {
      const auto words = f.words(c);
      for (int k = 0; k < count; ++k)
        if (first + k < n) y[first + k] = f(words[k], x[first + k]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(block_size)
    strided_dropout(Dropout<T> f, const T* x, T* y, detail::Steps<3, std::int64_t> walk) {
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t c = std::int64_t{blockIdx.x} * block_size + threadIdx.x; c * count < walk.count; c += step) {
    const auto words = f.words(c);
    for (int k = 0; k < count; ++k)
      if (c * count + k < walk.count) {
        std::int64_t offsets[3];
        walk.find(c * count + k, offsets);
        y[offsets[1]] = f(words[k], x[offsets[2]]);
      }
  }
}

void dropout(PhiloxState state, double p, const ConstView& x, const View& y) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const unsigned blocks = blocks_for((n + count - 1) / count, y.device);
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Dropout<T> f(state, p);
    if (x.is_contiguous() && y.is_contiguous()) {
      const bool is_aligned = detail::is_aligned<T>(x, count) && detail::is_aligned<T>(y, count);
      dense_dropout<<<blocks, block_size, 0, stream>>>(f, x.as<T>(), y.as<T>(), n, is_aligned);
    } else {
      const Strides row_major = contiguous_strides(y.shape);  // leads the walk
      const detail::Steps<3, std::int64_t> walk(Walk<3>(y.shape, {&row_major, &y.strides, &x.strides}));
      strided_dropout<<<blocks, block_size, 0, stream>>>(f, x.as<T>(), y.as<T>(), walk);
    }
  });
  check_launch();
}

}  // namespace

DropoutKernels dropout_kernels() { return {.dropout = dropout}; }

}  // namespace bytetape::cuda
