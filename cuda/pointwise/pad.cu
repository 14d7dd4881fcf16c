// A thread writes an element of y, in y's memory order. It copies x's element if there is one at that place. Adjacent
// dims are merged, so that few dims remain.
#include "bytetape/core/kernels/pad.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// The dims of y from the innermost on, and the position of x in each.
struct PaddedDims {
  int rank = 0;
  std::int64_t sizes[max_rank], before[max_rank], x_sizes[max_rank], x_strides[max_rank];

  explicit PaddedDims(const PadArgs& a) {
    // The walk's dims in y's order, each with its number
    int order[max_rank], count = 0;
    for (int d = 0; d < a.y.rank(); ++d) {
      int at = count++;
      for (; at > 0 && a.y.strides[order[at - 1]] > a.y.strides[d]; --at) order[at] = order[at - 1];
      order[at] = d;
    }
    for (int i = 0; i < count; ++i) add(a, order[i]);
    if (rank == 0) *this = whole();
  }

 private:
  PaddedDims() = default;
  static PaddedDims whole() {
    PaddedDims one;
    one.rank = 1;
    one.sizes[0] = one.x_sizes[0] = 1;
    one.before[0] = one.x_strides[0] = 0;
    return one;
  }
  void add(const PadArgs& a, int d) {
    const std::int64_t size = a.y.shape[d], x_size = a.x.shape[d];
    if (size == 1 && x_size == 1) return;
    const int in = rank - 1;
    if (rank > 0 && sizes[in] == x_sizes[in] && a.x.strides[d] == x_strides[in] * x_sizes[in]) {
      before[in] = a.before[d] * sizes[in];
      x_sizes[in] *= x_size;
      sizes[in] *= size;
      return;
    }
    sizes[rank] = size;
    before[rank] = a.before[d];
    x_sizes[rank] = x_size;
    x_strides[rank++] = a.x.strides[d];
  }
};

template <class I>
struct Padding {
  int rank;
  detail::Divisor<I> sizes[max_rank];
  std::int64_t before[max_rank], x_sizes[max_rank], x_strides[max_rank];

  explicit Padding(const PaddedDims& dims) : rank(dims.rank) {
    for (int d = 0; d < rank; ++d) {
      if (d + 1 < rank) sizes[d] = detail::Divisor<I>{static_cast<I>(dims.sizes[d])};  // the outermost divides nothing
      before[d] = dims.before[d];
      x_sizes[d] = dims.x_sizes[d];
      x_strides[d] = dims.x_strides[d];
    }
  }
  /// Where x has element i of y's memory; -1 where it has none.
  __device__ std::int64_t find(I i) const {
    std::int64_t from = 0;
#pragma unroll
    for (int d = 0; d < max_rank; ++d) {
      if (d >= rank) break;
      const bool is_last = d + 1 == rank;
      const I rest = is_last ? 0 : sizes[d].quotient(i);
      const std::int64_t at = static_cast<std::int64_t>(is_last ? i : i - rest * sizes[d].value) - before[d];
      if (at < 0 || at >= x_sizes[d]) return -1;
      from += at * x_strides[d];
      i = rest;
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
    if (count < detail::most)
      pad_kernel<<<blocks, block_size, 0, stream>>>(a.x.as<T>(), value, Padding<std::uint32_t>(dims), a.y.as<T>(),
                                                    count);
    else
      pad_kernel<<<blocks, block_size, 0, stream>>>(a.x.as<T>(), value, Padding<std::int64_t>(dims), a.y.as<T>(),
                                                    count);
  });
  check_launch();
}

}  // namespace

const PadKernels& pad_kernels() {
  static const PadKernels all{.pad = pad};
  return all;
}

}  // namespace bytetape::cuda
