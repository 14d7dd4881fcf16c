// Copies: transposing ones (transpose.cuh), and elementwise ones.
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/optim/widen.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/pointwise/transpose.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class To>
struct Convert {
  template <class From>
  __device__ auto operator()(From v) const {
    if constexpr (std::is_arithmetic_v<To>)
      return static_cast<To>(v);
    else
      return static_cast<float>(v);
  }
};

struct Same {
  template <class T>
  __device__ T operator()(T v) const {
    return v;
  }
};

/// Leaves what it moves as it is.
struct Unchanged {
  __device__ void start() {}
  template <class P>
  __device__ void of_x(std::int64_t, P&) const {}
  template <class P>
  __device__ void of_y(std::int64_t, P&) const {}
};

template <class T>
void move_as(const ConstView& x, const View& y) {
  if (x.is_constant() || same_layout(y.shape, y.strides, x.strides) || y.numel() == 0 ||
      !transposing::transpose<T>(Unchanged(), x, y))
    elementwise<T, T>(Same(), y, x);
}

// Copies without a change of dtype move bits, so there is one kernel per element size.
void move(const ConstView& x, const View& y) {
  switch (size_of(y.dtype)) {
    case 8:
      return move_as<std::uint64_t>(x, y);
    case 4:
      return move_as<std::uint32_t>(x, y);
    case 2:
      return move_as<std::uint16_t>(x, y);
    default:
      return move_as<std::uint8_t>(x, y);
  }
}

void copy(const ConstView& x, const View& y) {
  if (x.dtype == y.dtype) return move(x, y);
  visit(y.dtype, [&](auto to) {
    visit(x.dtype, [&](auto from) {
      using To = decltype(to);
      using From = decltype(from);
      if constexpr (!std::is_same_v<To, From>) elementwise<To, From>(Convert<To>(), y, x);
    });
  });
}

void fill(Scalar value, const View& y) { move(ConstView::constant(value, y.dtype, y.device, y.shape), y); }

template <class T, class N>
__global__ void arange_kernel(T* y, std::int64_t stride, std::int64_t n, N first, N each) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * block_size) {
    const N value = first + static_cast<N>(i) * each;
    if constexpr (std::is_integral_v<N>)  // unsigned: products may wrap, sums are in range
      y[i * stride] = detail::stored<T>(Convert<T>()(static_cast<std::int64_t>(value)));
    else
      y[i * stride] = detail::stored<T>(Convert<T>()(value));
  }
}

void arange(Scalar start, Scalar step, const View& y) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  visit(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto first, auto each) {
      arange_kernel<<<blocks_for(n, y.device), block_size, 0, stream>>>(y.as<T>(), y.strides[0], n, first, each);
    };
    if (start.is_integral() && step.is_integral())
      launch(start.to<std::uint64_t>(), step.to<std::uint64_t>());
    else
      launch(start.to<double>(), step.to<double>());
  });
  check_launch();
}

}  // namespace

const CopyKernels& copy_kernels() {
  static const CopyKernels all{
      .fill = fill,
      .copy = copy,
      .copy_all = copy_all,
      .widen_all = widen_all,
      .arange = arange,
  };
  return all;
}

}  // namespace bytetape::cuda
