// A thread writes an element of y, in y's memory order. It copies x's element if there is one at that place, or for a
// triangle if the place is on the right side of the diagonal. Adjacent dims are merged, so that few dims remain.
#include "bytetape/core/kernels/pad.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// The place of x in each dim of y, innermost first: the number of elements before it, its size and its stride.
struct Placement {
  std::int64_t before[max_rank] = {}, sizes[max_rank] = {1}, strides[max_rank] = {};
};

/// The dims of y from the innermost on.
struct PaddedDims {
  int rank = 0;
  std::int64_t sizes[max_rank];
  Placement x;

  explicit PaddedDims(const PadArgs& a) {
    // The dims of the walk in y's memory order, with their numbers.
    int order[max_rank], count = 0;
    for (int d = 0; d < a.y.rank(); ++d) {
      int at = count++;
      for (; at > 0 && a.y.strides[order[at - 1]] > a.y.strides[d]; --at) order[at] = order[at - 1];
      order[at] = d;
    }
    for (int i = 0; i < count; ++i) add(a, order[i]);
  }

 private:
  void add(const PadArgs& a, int d) {
    const std::int64_t size = a.y.shape[d], x_size = a.x.shape[d];
    if (size == 1 && x_size == 1) return;
    const int in = rank - 1;
    if (rank > 0 && sizes[in] == x.sizes[in] && a.x.strides[d] == x.strides[in] * x.sizes[in]) {
      x.before[in] = a.before[d] * sizes[in];
      x.sizes[in] *= x_size;
      sizes[in] *= size;
      return;
    }
    sizes[rank] = size;
    x.before[rank] = a.before[d];
    x.sizes[rank] = x_size;
    x.strides[rank++] = a.x.strides[d];
  }
};

template <class I>
struct Padding : Positions<I> {
  Placement x;

  explicit Padding(const PaddedDims& dims) : Positions<I>(dims.rank, [&](int d) { return dims.sizes[d]; }), x(dims.x) {}
  /// Returns the offset in x of element i of y's memory. -1 if the element is padding.
  __device__ std::int64_t find(I i) const {
    std::int64_t from = 0;
#pragma unroll
    for (int d = 0; d < max_rank; ++d) {
      if (d >= this->rank) break;
      const std::int64_t at = static_cast<std::int64_t>(this->take(d, i)) - x.before[d];
      if (at < 0 || at >= x.sizes[d]) return -1;
      from += at * x.strides[d];
    }
    return from;
  }
};

template <class T, class I>
__global__ void __launch_bounds__(block_size)
    pad_kernel(const T* x, T value, Padding<I> padding, T* y, std::int64_t count) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * block_size) {
    const std::int64_t from = padding.find(static_cast<I>(i));
    y[i] = from < 0 ? value : x[from];
  }
}

void pad(const PadArgs& a) {
  const std::int64_t count = a.y.numel();
  if (count == 0) return;
  const PaddedDims dims(a);
  const ConstView constant = ConstView::constant(a.value, a.y.dtype, a.y.device, {});
  const unsigned blocks = blocks_for(count, a.y.device);
  const cudaStream_t stream = stream_of(a.y.device);
  visit_bits(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, &constant.constant_bits(), sizeof value);
    if (count < index_limit)
      pad_kernel<<<blocks, block_size, 0, stream>>>(a.x.as<T>(), value, Padding<std::uint32_t>(dims), a.y.as<T>(),
                                                    count);
    else
      pad_kernel<<<blocks, block_size, 0, stream>>>(a.x.as<T>(), value, Padding<std::int64_t>(dims), a.y.as<T>(),
                                                    count);
  });
  check_launch();
}

template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    triangle_kernel(const T* x, std::int64_t diagonal, bool is_upper, T* y, Steps steps) {
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * block_size) {
    std::int64_t at[3];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    y[at[0]] = (is_upper ? at[2] >= diagonal : at[2] <= diagonal) ? x[at[1]] : T{};
  }
}

void triangle(const TriangleArgs& a) {
  if (a.y.numel() == 0) return;
  Strides column_minus_row = Dims::filled(a.y.rank(), 0);
  column_minus_row[a.y.rank() - 2] = -1;
  column_minus_row[a.y.rank() - 1] = 1;
  Walk<3> walk(a.y.shape, {&a.y.strides, &a.x.strides, &column_minus_row});
  walk.complete();
  visit_bits(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_steps(walk, [&](const auto& steps) {
      triangle_kernel<<<blocks_for(a.y.numel(), a.y.device), block_size, 0, stream_of(a.y.device)>>>(
          a.x.as<T>(), a.diagonal, a.is_upper, a.y.as<T>(), steps);
    });
  });
  check_launch();
}

}  // namespace

const PadKernels& pad_kernels() {
  static const PadKernels all{.pad = pad, .triangle = triangle};
  return all;
}

}  // namespace bytetape::cuda
