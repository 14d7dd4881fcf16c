#pragma once
// Elementwise y = f(numbers of the channel, x...).
#include "bytetape/cuda/norm/batch_norm.cuh"

namespace bytetape::cuda {
namespace detail {

template <class T, int inputs>
struct MapInputs {
  const T* data[inputs];
};

/// The number of blocks for each multiprocessor. All of them run together, so few blocks read the numbers of a channel.
/// There are enough that some compute while others wait for memory.
constexpr int map_blocks = 4;

template <class T, int lanes, class F, class P>
__global__ void __launch_bounds__(block_size, map_blocks) map_kernel(F f, P pixels, T* y, MapInputs<T, F::inputs> x) {
  // The pixels that a thread loads at once. More would fill its registers.
  constexpr int at_once = P::are_even && (F::inputs == 1 || sizeof(T) == 4) ? 2 : 1;
  const std::int64_t c = first_channel<lanes>(), step = gridDim.y * blockDim.y;
  std::int64_t at[at_once][F::inputs + 1], p = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= pixels.channels || p >= pixels.count) return;
  Packed<T, lanes> values[at_once][F::inputs];
  const auto load_pixels = [&] {
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      pixels.find(u == 0 ? p : min(p + u * step, pixels.count - 1), c, at[u]);
      for (int i = 0; i < F::inputs; ++i) values[u][i] = load_once<lanes>(x.data[i] + at[u][i + 1]);
    }
  };
  load_pixels();  // first, so that the pixels need not wait for the numbers
  const auto numbers = f.template of<lanes>(c);
  while (true) {
#pragma unroll
    for (int u = 0; u < at_once; ++u) keep_packed(values[u]);
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      if (u > 0 && p + u * step >= pixels.count) continue;
      Packed<T, lanes> out;
      for (int k = 0; k < lanes; ++k) {
        compute_t<T> operands[F::inputs];
        for (int i = 0; i < F::inputs; ++i) operands[i] = widened(values[u][i].values[k]);
        out.values[k] = narrowed<T>(f(numbers, k, operands));
      }
      out.store(y + at[u][0]);
    }
    p += at_once * step;
    if (p >= pixels.count) break;
    load_pixels();
  }
}

}  // namespace detail

/// Launches y = f(x...). F has the constant `inputs`, a function of<lanes>(c) that returns the numbers of the channels
/// from c on, and operator()(numbers, lane, values of x).
template <class T, class F, class... X>
void map(const F& f, const View& y, const X&... x) {
  if (y.numel() == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const std::array<const ConstView*, sizeof...(X) + 1> images{&y, &x...};
  const Pixels<sizeof...(X) + 1> pixels(images);
  with_lanes<T>(pixels, images, [&](auto lanes, const auto& found) {
    const Tiles tiles(pixels, lanes);
    const std::int64_t rows = tiles.threads.y, all = std::int64_t{processors(y.device)} * detail::map_blocks;
    const dim3 blocks(tiles.count, static_cast<unsigned>(std::min((pixels.count + rows - 1) / rows,
                                                                  std::max<std::int64_t>(all / tiles.count, 1))));
    detail::map_kernel<T, lanes><<<blocks, tiles.threads, 0, stream>>>(f, found, y.as<T>(), {x.template as<T>()...});
  });
  check_launch();
}

}  // namespace bytetape::cuda
