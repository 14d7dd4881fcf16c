#include "bytetape/cuda/conv/conv_tiles.cuh"

#include "bytetape/core/visit.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

constexpr int warp = ConvTiles::warp;

/// A thread block adds a warp of columns. It adds in f64, because there may be many thread blocks.
template <class T>
__global__ void __launch_bounds__(warp* warp)
    add_blocks_kernel(ConvTiles d, const float* sums, std::int64_t columns, Weight<T> gw, T* gb) {
  __shared__ double parts[warp][warp];
  const std::int64_t column = std::int64_t{blockIdx.x} * warp + threadIdx.x, step = d.sum_rows() * d.o;
  double sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t b = threadIdx.y; b < d.blocks; b += warp) sum += static_cast<double>(sums[b * step + column]);
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int k = 1; k < warp; ++k) sum += parts[k][threadIdx.x];
  const int row = static_cast<int>(column) / d.o, output = static_cast<int>(column) - row * d.o;
  const int tap = row / d.c, channel = row - tap * d.c, taps = d.taps();
  const T total = narrowed<T>(static_cast<float>(sum));
  if (tap < taps)
    gw.at(d, output, channel, tap) = total;
  else
    gb[output] = total;
}

}  // namespace

void add_blocks(const ConvTiles& d, const float* sums, const Conv2dWeightGradArgs& a) {
  const std::int64_t columns = (d.sum_rows() - (a.gb.defined() ? 0 : 1)) * d.o;
  visit_floating(a.gw.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>)
      add_blocks_kernel<T>
          <<<static_cast<unsigned>((columns + warp - 1) / warp), dim3(warp, warp), 0, stream_of(a.gw.device)>>>(
              d, sums, columns, Weight<T>(a.gw), a.gb.as<T>());
  });
  check_launch();
}

}  // namespace bytetape::cuda
