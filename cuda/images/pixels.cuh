#pragma once
// Helpers for kernels over images (n, c, h, w). A thread computes one channel of a pixel, or several neighbouring ones.
// If channels are adjacent in memory, the x dim of threads runs along the channels and pixels of a row, else along the
// pixels of a row. The y dim of blocks runs along the rows.
#include <algorithm>

#include "bytetape/core/images/resample.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/elementwise.cuh"

namespace bytetape::cuda {

template <int lanes, class T>
__device__ void store(T* to, const Packed<T, lanes>& values) {
  if constexpr (sizeof(values) == sizeof(uint4))  // the compiler would store values from a loop one by one
    __stwb(reinterpret_cast<uint4*>(to), std::bit_cast<uint4>(values));
  else
    values.store(to);
}

template <class T>
struct ImagePixels {
  T* data;
  std::int64_t strides[4];

  template <class V>
  explicit ImagePixels(const V& v) : data(v.template as<T>()) {
    for (int d = 0; d < 4; ++d) strides[d] = v.defined() ? v.strides[d] : 0;
  }
  __device__ std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3];
  }
  __device__ T* at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return data + offset(n, c, h, w);
  }
};

/// The arrangement of threads over a result of shape (n, c, h, w), with `lanes` channels for each thread.
struct Layout {
  std::int64_t inner;           // vectors in a row: pixels, times vectors of channels if these are adjacent
  std::int64_t inner_channels;  // vectors of channels if adjacent, else 1
  std::int64_t outer_channels;  // channels that form their own rows, else 1
  std::int64_t rows, height;
  dim3 blocks, threads;

  Layout(const ConstView& made, int lanes) : height(made.shape[2]) {
    const std::int64_t vectors = made.shape[1] / lanes, width = made.shape[3];
    const bool adjacent = made.strides[1] == 1 && (vectors > 1 || lanes > 1);
    inner_channels = adjacent ? vectors : 1;
    outer_channels = adjacent ? 1 : vectors;
    inner = width * inner_channels;
    rows = made.shape[0] * outer_channels * height;
    while (threads.x < block_size && threads.x < inner) threads.x *= 2;
    threads.y = block_size / threads.x;
    blocks.x = static_cast<unsigned>((inner + threads.x - 1) / threads.x);
    const std::int64_t most = std::max<std::int64_t>(std::int64_t{processors(made.device)} * 16 / blocks.x, 1);
    blocks.y = static_cast<unsigned>(std::min((rows + threads.y - 1) / threads.y, most));
  }

  /// Calls f(n, c, h, w) for each vector of this thread.
  template <int lanes, class F>
  __device__ void for_each(const F& f) const {
    const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= inner) return;
    const std::int64_t w = resample::quotient(i, inner_channels), inner_channel = i - w * inner_channels;
    const std::int64_t step = std::int64_t{gridDim.y} * blockDim.y;
    for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows; row += step) {
      const std::int64_t plane = resample::quotient(row, height), h = row - plane * height;
      const std::int64_t n = resample::quotient(plane, outer_channels), outer_channel = plane - n * outer_channels;
      f(n, (inner_channel + outer_channel) * lanes, h, w);
    }
  }
};

/// Whether channels can be accessed `lanes` at a time: adjacent and aligned in every pixel.
inline bool fits(const ConstView& v, int lanes) { return !v.defined() || has_vectors(v, 1, lanes); }

}  // namespace bytetape::cuda
