// Thread c draws the four words of Philox counter c, and applies them to four elements: each is zeroed or scaled.
#include <array>

#include "bytetape/core/kernels/dropout.h"
#include "bytetape/core/philox.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/pointwise/transpose.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int count = 4;  // elements per counter

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

/// For row-major x and y. They may be the same memory.
template <class T>
__global__ void __launch_bounds__(block_size)
    dense_dropout(Dropout<T> f, const T* x, T* y, std::int64_t n, bool is_aligned) {
  using Vector = detail::Lanes<T, count>;
  f.state = started(f.state);
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

/// For transpose(): drops where memory is row-major, in x or in y.
template <class T, bool in_y>
struct Transposing {
  Dropout<T> f;
  __device__ void start() { f.state = started(f.state); }
  template <int n>
  __device__ void of_x(std::int64_t i, Packed<T, n>& v) const {
    if (!in_y) apply(i, v);
  }
  template <int n>
  __device__ void of_y(std::int64_t i, Packed<T, n>& v) const {
    if (in_y) apply(i, v);
  }

 private:
  template <int n>
  __device__ void apply(std::int64_t first, Packed<T, n>& v) const {
    std::array<std::uint32_t, 4> words;
    for (int k = 0; k < n; ++k) {
      const auto at = static_cast<int>((first + k) % count);
      if (k == 0 || at == 0) words = f.words((first + k) / count);
      v.values[k] = f(words[static_cast<std::size_t>(at)], v.values[k]);
    }
  }
};

/// For other layouts. A thread takes `each` elements that are adjacent in row-major order. Threads are in y's memory
/// order, so that adjacent threads write adjacent memory.
template <int each, class T>
__global__ void __launch_bounds__(block_size) strided_dropout(Dropout<T> f, const T* x, T* y, std::int64_t x_step,
                                                              std::int64_t y_step, Steps<3, std::int64_t> walk) {
  f.state = started(f.state);
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < walk.count; i += step) {
    std::int64_t offsets[3];
    walk.find(i, offsets);
    const auto words = f.words(offsets[2] / count);
    for (int k = 0; k < each; ++k) {
      const std::uint32_t word = each == 1 ? words[offsets[2] % count] : words[k];
      y[offsets[0] + k * y_step] = f(word, x[offsets[1] + k * x_step]);
    }
  }
}

/// If the innermost dim has whole counters, a thread takes one counter. Otherwise it takes one element.
template <class T>
void run_strided(const Dropout<T>& f, const ConstView& x, const View& y, cudaStream_t stream) {
  const int last = y.rank() - 1;
  const bool in_fours = last >= 0 && y.shape[last] % count == 0;
  Shape shape = y.shape;
  Strides y_strides = y.strides, x_strides = x.strides, numbers = contiguous_strides(y.shape);
  if (in_fours) {
    shape[last] /= count;
    for (Strides* s : {&y_strides, &x_strides, &numbers}) (*s)[last] *= count;
  }
  const Steps<3, std::int64_t> walk(Walk<3>(shape, {&y_strides, &x_strides, &numbers}));
  const unsigned blocks = blocks_for(walk.count, y.device);
  if (in_fours)
    strided_dropout<count>
        <<<blocks, block_size, 0, stream>>>(f, x.as<T>(), y.as<T>(), x.strides[last], y.strides[last], walk);
  else
    strided_dropout<1><<<blocks, block_size, 0, stream>>>(f, x.as<T>(), y.as<T>(), 0, 0, walk);
}

void dropout(const DropoutArgs& a, const Plan&, Workspace) {
  const std::int64_t n = a.y.numel();
  if (n == 0) return;
  const cudaStream_t stream = stream_of(a.y.device);
  visit_floating(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Dropout<T> f(a.state, a.p);
    const bool x_is_dense = a.x.is_contiguous(), y_is_dense = a.y.is_contiguous();
    if (y_is_dense && !x_is_dense && transposing::transpose<T>(Transposing<T, true>{f}, a.x, a.y)) return;
    if (x_is_dense && !y_is_dense && transposing::transpose<T>(Transposing<T, false>{f}, a.x, a.y)) return;
    if (!x_is_dense || !y_is_dense) return run_strided(f, a.x, a.y, stream);
    const bool is_aligned = are_aligned({&a.x, &a.y}, sizeof(T) * count);
    dense_dropout<<<blocks_for((n + count - 1) / count, a.y.device), block_size, 0, stream>>>(
        f, a.x.as<T>(), a.y.as<T>(), n, is_aligned);
  });
  check_launch();
}

}  // namespace

const DropoutKernels& dropout_kernels() {
  static const DropoutKernels all{.dropout = {dropout_plans().dropout.plan, dropout}};
  return all;
}

}  // namespace bytetape::cuda
