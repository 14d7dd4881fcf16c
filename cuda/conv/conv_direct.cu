#include "bytetape/cuda/conv/conv_direct.h"

#include "bytetape/core/visit.h"
#include "bytetape/cuda/conv/conv_tiles.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

constexpr int warp = DirectConv::warp, warps = DirectConv::warps, threads = DirectConv::threads;
constexpr int quad = DirectConv::quad;

struct alignas(16) Quad {
  float v[quad];
};

__device__ Quad& quad_at(float* p) { return *reinterpret_cast<Quad*>(p); }

/// Loads the part of x that a tile depends on, and computes the places of the tile's pixels.
template <int channels, class T>
__device__ void load_tile(const DirectConv& d, const Image<T>& x, const Tile& tile, float* values, Place* places) {
  constexpr int width = DirectConv::width(channels);
  for_each_seen<channels>(d, x, tile, [&](int i, const T(&v)[quad]) {
    if constexpr (width == 1)
      values[i] = widened(v[0]);
    else
      quad_at(values + i * width) = {widened(v[0]), widened(v[1]), widened(v[2]), widened(v[3])};
  });
  place_pixels(d, tile, width, places);
}

/// Returns a pixel of x from shared memory.
template <int channels>
__device__ Quad pixel_at(float* values) {
  if constexpr (channels == 1)
    return {*values};
  else
    return quad_at(values);
}

/// Loads the weights of the outputs from `first` on as (kh, kw, channels, outputs), then the bias.
template <int channels, class T>
__device__ void load_weights(const DirectConv& d, const Weight<const T>& weight, const T* bias, int first,
                             float* weights) {
  const int taps = d.taps(), patch = channels * taps, outputs = DirectConv::forward_quads * d.lanes * quad;
  const int step = d.weight_step();
  for (int i = threadIdx.x; i < outputs * patch; i += threads) {
    const int output = i / patch, k = i - output * patch, channel = k / taps, tap = k - channel * taps;
    float v = 0;
    if (first + output < d.o && channel < d.c) v = widened(weight.at(d, first + output, channel, tap));
    weights[(tap * channels + channel) * step + output] = v;
  }
  for (int i = threadIdx.x; i < outputs; i += threads)
    weights[patch * step + i] = bias && first + i < d.o ? widened(bias[first + i]) : 0.f;
}

/// Thread block (t, g) computes the outputs of group g for tile t. A warp processes `forward_pixels` pixels per thread
/// at a time.
template <class T, int channels>
__global__ void __launch_bounds__(threads, DirectConv::forward_blocks(channels))
    forward_kernel(DirectConv d, Image<T> x, Weight<const T> weight, const T* bias, T* y, bool is_aligned, bool relu) {
  constexpr int pixels = DirectConv::forward_pixels, quads = DirectConv::forward_quads;
  extern __shared__ Quad shared[];
  float* const values = shared[0].v;
  float* const weights = values + d.values / sizeof(float);
  Place* const places = reinterpret_cast<Place*>(weights + d.weight_bytes() / sizeof(float));
  const Tile tile(d, blockIdx.x);
  const int first_output = blockIdx.y * quads * d.lanes * quad;
  load_tile<channels>(d, x, tile, values, places);
  load_weights<channels>(d, weight, bias, first_output, weights);
  __syncthreads();
  const int lane = threadIdx.x % d.lanes * quad, pixel = threadIdx.x % warp / d.lanes, pixel_step = warp / d.lanes;
  const int quad_step = d.lanes * quad, weight_step = d.weight_step();
  const std::uint32_t first = tile.first(d);
  for (int start = threadIdx.x / warp * pixels * pixel_step; start < tile.count; start += warps * pixels * pixel_step) {
    std::uint32_t at[pixels];
    float sum[pixels][quads][quad];
    for (int p = 0; p < pixels; ++p) {
      const int i = start + p * pixel_step + pixel;
      at[p] = i < tile.count ? places[i].x : 0;
    }
    float* taps = weights + lane;
    for (int q = 0; q < quads; ++q) {
      const Quad bias_quad = quad_at(taps + channels * d.taps() * weight_step + q * quad_step);
      for (int p = 0; p < pixels; ++p)
        for (int k = 0; k < quad; ++k) sum[p][q][k] = bias_quad.v[k];
    }
    for (int ky = 0; ky < d.kh; ++ky) {
      int offset = ky * d.dilation[0] * d.columns * DirectConv::width(channels);
#pragma unroll 1
      for (int kx = 0; kx < d.kw; ++kx) {
        Quad in[pixels];
        for (int p = 0; p < pixels; ++p) in[p] = pixel_at<channels>(values + at[p] + offset);
        for (int c = 0; c < channels; ++c) {
          for (int q = 0; q < quads; ++q) {
            const Quad tap = quad_at(taps + q * quad_step);
            for (int p = 0; p < pixels; ++p)
              for (int k = 0; k < quad; ++k) sum[p][q][k] += in[p].v[c] * tap.v[k];
          }
          taps += weight_step;
        }
        offset += d.dilation[1] * DirectConv::width(channels);
      }
    }
    for (int p = 0; p < pixels; ++p) {
      const int i = start + p * pixel_step + pixel;
      if (i >= tile.count) break;
      T* to = y + (first + places[i].y) * static_cast<std::uint32_t>(d.o);
      for (int q = 0; q < quads; ++q) {
        const int output = first_output + q * quad_step + lane;
        if (output >= d.o) break;
        Packed<T, quad> out;
        for (int k = 0; k < quad; ++k) out.values[k] = narrowed<T>(relu && sum[p][q][k] < 0 ? 0.f : sum[p][q][k]);
        if (is_aligned)
          out.store(to + output);
        else
          for (int k = 0; k < quad; ++k) to[output + k] = out.values[k];
      }
    }
  }
}

/// Thread block (g, b) sums the tiles of share b, for the taps and outputs of group g, into sums[b]: (taps, c, o), and
/// then o values for the bias. A thread sums 4 outputs for all taps of the group, over pixels a fixed step apart. If gy
/// passes through relu, it is masked by relu's result y.
template <class T, int channels, bool relu>
__global__ void __launch_bounds__(threads, DirectConv::weight_grad_blocks(channels))
    weight_grad_kernel(DirectConv d, Image<T> x, const T* gy, const T* y, float* sums, bool is_aligned) {
  constexpr int most_taps = DirectConv::taps_a_thread(channels), loads = channels == 1 ? 4 : 2;
  constexpr int at_once = relu ? loads / 2 : loads;
  extern __shared__ Quad shared[];
  float* const values = shared[0].v;
  Place* const places = reinterpret_cast<Place*>(values + d.values / sizeof(float));
  const int tap_group = blockIdx.x % d.tap_groups, first_tap = tap_group * most_taps;
  const int lane = threadIdx.x % d.lanes, first_output = blockIdx.x / d.tap_groups * d.lanes * quad;
  const int output = first_output + lane * quad, step = threads / d.lanes;
  int offsets[most_taps];
  for (int t = 0; t < most_taps; ++t) {
    const int tap = first_tap + t < d.taps() ? first_tap + t : 0, ky = tap / d.kw, kx = tap - ky * d.kw;
    offsets[t] = (ky * d.dilation[0] * d.columns + kx * d.dilation[1]) * DirectConv::width(channels);
  }
  float sum[most_taps * channels + 1][quad] = {};
  const auto load = [&](const T* from) {
    if (is_aligned) return Packed<T, quad>::load(from);
    Packed<T, quad> read;
    for (int k = 0; k < quad; ++k) read.values[k] = from[k];
    return read;
  };
  const auto add_pixels = [&](auto count, int i, std::int64_t from) {
    Packed<T, quad> g[count];
    [[maybe_unused]] Packed<T, quad> result[count];
    std::uint32_t at[count];
    for (int p = 0; p < count; ++p) {
      const Place place = places[i + p * step];
      at[p] = place.x;
      const std::int64_t pixel = from + place.y * static_cast<std::uint32_t>(d.o);
      g[p] = load(gy + pixel);
      if constexpr (relu) result[p] = load(y + pixel);
    }
    for (int p = 0; p < count; ++p) {
      float wide[quad];
      for (int k = 0; k < quad; ++k) {
        wide[k] = widened(g[p].values[k]);
        if constexpr (relu)
          if (widened(result[p].values[k]) <= 0) wide[k] = 0;
      }
      for (int t = 0; t < most_taps; ++t) {
        const Quad in = pixel_at<channels>(values + at[p] + offsets[t]);
        for (int c = 0; c < channels; ++c)
          for (int k = 0; k < quad; ++k) sum[t * channels + c][k] += in.v[c] * wide[k];
      }
      for (int k = 0; k < quad; ++k) sum[most_taps * channels][k] += wide[k];
    }
  };
  const auto end = static_cast<int>(d.tiles * (blockIdx.y + 1) / d.blocks);
  for (auto t = static_cast<int>(d.tiles * blockIdx.y / d.blocks); t < end; ++t) {
    const Tile tile(d, t);
    __syncthreads();
    load_tile<channels>(d, x, tile, values, places);
    __syncthreads();
    if (output >= d.o) continue;
    const std::int64_t from = std::int64_t{tile.first(d)} * d.o + output;
    int i = threadIdx.x / d.lanes;
    for (; i + (at_once - 1) * step < tile.count; i += at_once * step)
      add_pixels(std::integral_constant<int, at_once>(), i, from);
    for (; i < tile.count; i += step) add_pixels(std::integral_constant<int, 1>(), i, from);
  }
  // Sums over the threads of a warp with the same outputs, then over the warps in order.
#pragma unroll 1
  for (int other = warp / 2; other >= d.lanes; other /= 2)
    for (auto& row : sum)
      for (float& v : row) v += __shfl_xor_sync(0xffffffff, v, other);
#pragma unroll 1
  for (int w = 0; w < warps; ++w) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) / warp != w || static_cast<int>(threadIdx.x) % warp >= d.lanes) continue;
#pragma unroll
    for (int r = 0; r <= most_taps * channels; ++r) {
      Quad& to = shared[r * d.lanes + lane];
      Quad all = w > 0 ? to : Quad{};
      for (int k = 0; k < quad; ++k) all.v[k] += sum[r][k];
      to = all;
      asm volatile("" ::: "memory");  // otherwise all rows are loaded first, and registers run out
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < (most_taps * channels + 1) * d.lanes; i += threads) {
    const int r = i / d.lanes, out = first_output + (i - r * d.lanes) * quad;
    const int tap = first_tap + r / channels, channel = r % channels;
    const bool is_bias = r == most_taps * channels;
    if (out >= d.o || (is_bias ? tap_group > 0 : tap >= d.taps() || channel >= d.c)) continue;
    const int row = is_bias ? d.c * d.taps() : tap * d.c + channel;
    quad_at(sums + (blockIdx.y * d.sum_rows() + row) * d.o + out) = shared[i];
  }
}

/// Calls f(T{}, channels), with `channels` a std::integral_constant.
template <class F>
void visit(const DirectConv& d, DType dtype, const F& f) {
  visit_tiled(dtype, [&](auto zero) {
    switch (d.channels) {
      case 1:
        return f(zero, std::integral_constant<int, 1>());
      case 3:
        return f(zero, std::integral_constant<int, 3>());
      default:
        return f(zero, std::integral_constant<int, 4>());
    }
  });
}

}  // namespace

void direct_forward(const Conv2dArgs& a) {
  const DirectConv d(ConvSizes(a), ConvMap::forward);
  const cudaStream_t stream = stream_of(a.y.device);
  const dim3 grid(static_cast<unsigned>(d.tiles), static_cast<unsigned>(d.output_groups));
  visit(d, a.y.dtype, [&](auto zero, auto channels) {
    using T = decltype(zero);
    forward_kernel<T, decltype(channels)::value>
        <<<grid, threads, d.shared, stream>>>(d, Image<T>(a.x), Weight<const T>(a.weight), a.bias.as<T>(), a.y.as<T>(),
                                              is_aligned(a.y, sizeof(T) * quad), a.activation == Activation::relu);
  });
  check_launch();
}

void direct_weight_grad(const Conv2dWeightGradArgs& a, void* ws) {
  const DirectConv d(ConvSizes(a), ConvMap::weight_grad);
  const cudaStream_t stream = stream_of(a.gy.device);
  const dim3 grid(static_cast<unsigned>(d.output_groups * d.tap_groups), static_cast<unsigned>(d.blocks));
  auto* sums = static_cast<float*>(ws);
  visit(d, a.gy.dtype, [&](auto zero, auto channels) {
    using T = decltype(zero);
    constexpr int c = decltype(channels)::value;
    const auto kernel =
        a.activation == Activation::relu ? weight_grad_kernel<T, c, true> : weight_grad_kernel<T, c, false>;
    const bool aligned = are_aligned({&a.gy, &a.y}, sizeof(T) * quad);
    kernel<<<grid, threads, d.shared, stream>>>(d, Image<T>(a.x), a.gy.as<T>(), a.y.as<T>(), sums, aligned);
  });
  check_launch();
  add_blocks(d, sums, a);
}

}  // namespace bytetape::cuda
