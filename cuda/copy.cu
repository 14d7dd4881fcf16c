#include "bytetape/cuda/elementwise.cuh"
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

// What keeps its dtype is moved as bits: one kernel for each size of element.
void move(const ConstView& x, const View& y) {
  switch (size_of(y.dtype)) {
    case 8:
      return elementwise<std::uint64_t, std::uint64_t>(Same(), y, x);
    case 4:
      return elementwise<std::uint32_t, std::uint32_t>(Same(), y, x);
    case 2:
      return elementwise<std::uint16_t, std::uint16_t>(Same(), y, x);
    default:
      return elementwise<std::uint8_t, std::uint8_t>(Same(), y, x);
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
    if constexpr (std::is_integral_v<N>)  // unsigned: a product may wrap, the sum is in range again
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

CopyKernels copy_kernels() {
  return {
      .fill = fill,
      .copy = copy,
      .arange = arange,
  };
}

}  // namespace bytetape::cuda
