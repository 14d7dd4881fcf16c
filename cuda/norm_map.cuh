#pragma once
// y = f(numbers of the channel, x...), element by element.
#include "bytetape/cuda/norm.cuh"

namespace bytetape::cuda {
namespace detail {

template <class T, int inputs>
struct MapInputs {
  const T* data[inputs];
};

/// Pixels that a thread takes at once.
template <class F>
constexpr int map_at_once = 6 / F::inputs;
/// Blocks for each processor, which all run together: what is known of a channel is read by few.
constexpr int map_blocks = 2;

template <class T, int lanes, class F>
__global__ void __launch_bounds__(block_size, map_blocks)
    map_kernel(F f, Pixels<F::inputs + 1> pixels, T* y, MapInputs<T, F::inputs> x) {
  using C = compute_t<T>;
  const std::int64_t c = first_channel<lanes>();
  if (c >= pixels.channels) return;
  const auto numbers = f.template of<lanes>(c);

  constexpr int at_once = map_at_once<F>;
  const std::int64_t step = blockDim.y, tile = at_once * step;
  for (std::int64_t p = blockIdx.y * tile + threadIdx.y; p < pixels.count; p += gridDim.y * tile) {
    Packed<T, lanes> values[at_once][F::inputs];
    std::int64_t to[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {  // all loads before the first store
      if (p + u * step >= pixels.count) continue;
      std::int64_t at[F::inputs + 1];
      pixels.find(p + u * step, c, at);
      to[u] = at[0];
      for (int i = 0; i < F::inputs; ++i) values[u][i] = cuda::load<lanes>(x.data[i] + at[i + 1]);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      if (p + u * step >= pixels.count) continue;
      Packed<T, lanes> out;
      for (int k = 0; k < lanes; ++k) {
        C operands[F::inputs];
        for (int i = 0; i < F::inputs; ++i) operands[i] = widened(values[u][i].values[k]);
        out.values[k] = narrowed<T>(f(numbers, k, operands));
      }
      out.store(y + to[u]);
    }
  }
}

}  // namespace detail

/// F has `inputs`, a number; of<lanes>(c), what it needs to know of some channels; and f(that, lane, values of x).
template <class T, class F, class... X>
void map(const F& f, const View& y, const X&... x) {
  if (y.numel() == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const std::array<const ConstView*, sizeof...(X) + 1> images{&y, &x...};
  const Pixels<sizeof...(X) + 1> pixels(images);
  with_lanes<T>(pixels, images, [&](auto lanes) {
    const Tiles tiles(pixels, lanes);
    const std::int64_t tile = std::int64_t{detail::map_at_once<F>} * tiles.threads.y;
    const std::int64_t most =
        std::max<std::int64_t>(std::int64_t{processors(y.device)} * detail::map_blocks / tiles.count, 1);
    const dim3 blocks(tiles.count, static_cast<unsigned>(std::min((pixels.count + tile - 1) / tile, most)));
    detail::map_kernel<T, lanes><<<blocks, tiles.threads, 0, stream>>>(f, pixels, y.as<T>(), {x.template as<T>()...});
  });
  check_launch();
}

}  // namespace bytetape::cuda
