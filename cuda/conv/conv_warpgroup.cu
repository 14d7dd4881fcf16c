// The weight's gradient with warpgroup instructions. gy goes through shared memory into registers. x goes through
// registers into shared memory and is transposed, because the terms of a sum must be adjacent there.
#include "bytetape/cuda/conv/conv_warpgroup.h"

#include <algorithm>

#include "bytetape/cuda/conv/wgmma.cuh"
#include "bytetape/cuda/matmul/mma.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

constexpr int taps = WarpgroupConv::taps, outputs = WarpgroupConv::outputs, images = WarpgroupConv::images;
constexpr int rows = WarpgroupConv::rows, columns = WarpgroupConv::columns, threads = WarpgroupConv::threads;
constexpr int warp = 32;
constexpr int pitch = outputs + 8;  // floats per pixel of gy, so that a warp's loads use different banks

/// Constants for the channels of a thread block. A place is a pixel of a tile, for all images of the tile.
template <int channels_>
struct Layout {
  static constexpr int channels = channels_, quads = channels / 4, places = rows * columns;
  static constexpr int x_columns = columns + 2, x_places = x_columns * (rows + 2);  // with the pixels around a tile
  static constexpr int half = channels * 16, place = 2 * half;  // bytes of x: 4 images of a place, and all 8
  static constexpr int gy_bytes = places * images * pitch * static_cast<int>(sizeof(float));
  static constexpr int stage = gy_bytes + x_places * place, shared = 2 * stage;  // bytes of a tile, and of two
  static constexpr int blocks = x_places * 2 * quads;  // blocks of 4 images by 4 channels, each transposed by a thread
  static constexpr int rounds = (blocks + threads - 1) / threads;
  static constexpr int batches = 4, steps = places / batches;  // batches of products per tile, and steps per batch
  static_assert(rounds <= batches);
  /// Returns the place in x that place p of gy meets under the first tap of a row.
  static constexpr int seen(int p) { return p / columns * x_columns + p % columns; }
};

/// The first image, row and column of a tile.
struct Tile {
  int image, row, column;

  __device__ static Tile number(const WarpgroupConv& d, int i) {
    const int across = d.ow / columns, group = i / d.image_tiles, in_image = i - group * d.image_tiles;
    const int band = in_image / across;
    return {group * images, band * rows, (in_image - band * across) * columns};
  }
};

/// Copies 16 bytes into shared memory asynchronously, or writes zeros.
__device__ void copy_async(void* to, const void* from, bool is_there) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
}

/// Waits for all of this thread's copies.
__device__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Copies gy of a tile, as (place, image, output).
template <class L>
__device__ void load_gradient(const WarpgroupConv& d, const float* gy, const Tile& tile, int output, float* to) {
  constexpr int quads = outputs / 4;
#pragma unroll 2
  for (int i = threadIdx.x; i < L::places * images * quads; i += threads) {
    const int pixel = i / quads, k = i % quads * 4, place = pixel / images;
    const int image = tile.image + pixel % images;
    const bool is_there = image < d.n;
    const std::int64_t row = std::int64_t{is_there ? image : 0} * d.oh + tile.row + place / columns;
    copy_async(to + pixel * pitch + k, gy + (row * d.ow + tile.column + place % columns) * d.o + output + k, is_there);
  }
}

/// Four images' values of four channels at a place of x, on the way to shared memory.
template <class L>
struct Block {
  float4 of_image[4];

  __device__ static int number(int round) { return threadIdx.x + round * threads; }

  __device__ void load(const WarpgroupConv& d, const float* x, const Tile& tile, int channel, int round) {
    const int i = number(round), quad = i % L::quads, half = i / L::quads % 2, place = i / (2 * L::quads);
    const int row = tile.row - d.pad_h + place / L::x_columns, column = tile.column - d.pad_w + place % L::x_columns;
    const int image = tile.image + 4 * half;
    const bool is_inside = i < L::blocks && static_cast<unsigned>(row) < static_cast<unsigned>(d.h) &&
                           static_cast<unsigned>(column) < static_cast<unsigned>(d.w);
    const std::int64_t step = std::int64_t{d.h} * d.w * d.c;
    const float* from = x + image * step + (std::int64_t{row} * d.w + column) * d.c + channel + 4 * quad;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      of_image[k] = is_inside && image + k < d.n ? __ldg(reinterpret_cast<const float4*>(from + k * step)) : float4{};
  }

  /// Stores the values rounded to TF32, as (place, half of the images, channel, image). Threads start with different
  /// channels, so that eight threads write to different banks.
  __device__ void store(char* to, int round) const {
    const int i = number(round), quad = i % L::quads, turn = quad / 2 % 4;
    if (i >= L::blocks) return;
    const auto& v = of_image;
    const float4 of_channel[4] = {{v[0].x, v[1].x, v[2].x, v[3].x},
                                  {v[0].y, v[1].y, v[2].y, v[3].y},
                                  {v[0].z, v[1].z, v[2].z, v[3].z},
                                  {v[0].w, v[1].w, v[2].w, v[3].w}};
    float4 by_one[4], turned[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) by_one[k] = turn & 1 ? of_channel[(k + 1) % 4] : of_channel[k];
#pragma unroll
    for (int k = 0; k < 4; ++k) turned[k] = turn & 2 ? by_one[(k + 2) % 4] : by_one[k];
    float4* const channel = reinterpret_cast<float4*>(to) + i / L::quads * L::channels + 4 * quad;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      channel[(k + turn) % 4] = {factor(turned[k].x), factor(turned[k].y), factor(turned[k].z), factor(turned[k].w)};
  }
};

/// Loads a thread's words of gy for the products of a batch. Rows 16 w + r and 16 w + r + 8 are outputs 16 w + 2 r and
/// 16 w + 2 r + 1.
template <int steps>
__device__ void load_factors(const float* gy, std::uint32_t (&a)[steps][4]) {
#pragma unroll
  for (int s = 0; s < steps; ++s)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 v = *reinterpret_cast<const float2*>(gy + (s * images + 4 * half) * pitch);
      a[s][2 * half] = __float_as_uint(factor(v.x)), a[s][2 * half + 1] = __float_as_uint(factor(v.y));
    }
}

/// The range of tiles of this thread block.
struct Share {
  int begin, end;

  __device__ explicit Share(const WarpgroupConv& d)
      : begin(static_cast<int>(std::int64_t{d.tiles} * blockIdx.x / d.shares)),
        end(static_cast<int>(std::int64_t{d.tiles} * (blockIdx.x + 1) / d.shares)) {}
};

/// Stores a thread's sums for the three taps of its warpgroup's row and for outputs `output` and `output` + 1.
template <int channels>
__device__ void store_sums(const WarpgroupConv& d, const float (&sum)[3][channels / 2], int output, int channel,
                           float* sums) {
  const int tap_row = threadIdx.x / (4 * warp), t = threadIdx.x % 4;
  float* const to = sums + std::int64_t{blockIdx.x} * d.o * taps * d.c;
#pragma unroll
  for (int tap = 0; tap < 3; ++tap)
#pragma unroll
    for (int j = 0; j < channels / 8; ++j)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const std::int64_t row = std::int64_t{output + k} * taps + tap_row * 3 + tap;
        const float* const pair = &sum[tap][4 * j + 2 * k];
        *reinterpret_cast<float2*>(to + row * d.c + channel + 8 * j + 2 * t) = {pair[0], pair[1]};
      }
}

/// Thread block (k, i, j) sums the tiles of share k, for outputs i and channels j, into sums[k]: (o, taps, c). While
/// the tensor cores process one tile, the threads load the next.
template <class L>
__global__ void __launch_bounds__(threads, 1)
    weight_grad_kernel(WarpgroupConv d, const float* __restrict__ x, const float* __restrict__ gy, float* sums) {
  extern __shared__ char shared[];
  const int output = blockIdx.y * outputs, channel = blockIdx.z * L::channels;
  const int lane = threadIdx.x % warp, r = lane / 4, t = lane % 4, w = threadIdx.x / warp % 4;
  const int tap_row = __shfl_sync(0xffffffff, threadIdx.x / (4 * warp), 0);
  const Share share(d);
  float sum[3][L::channels / 2] = {};
  const auto stage = [&](int k) { return shared + k * L::stage; };
  {
    const Tile tile = Tile::number(d, share.begin);
    load_gradient<L>(d, gy, tile, output, reinterpret_cast<float*>(stage(0)));
#pragma unroll 1
    for (int round = 0; round < L::rounds; ++round) {
      Block<L> block;
      block.load(d, x, tile, channel, round);
      block.store(stage(0) + L::gy_bytes, round);
    }
  }
  for (int i = share.begin, now = 0; i < share.end; ++i, now ^= 1) {
    wait_for_copies();
    publish_to_wgmma();
    __syncthreads();
    const bool has_next = i + 1 < share.end;
    const Tile next = Tile::number(d, i + 1);
    if (has_next) load_gradient<L>(d, gy, next, output, reinterpret_cast<float*>(stage(now ^ 1)));
    const float* const factors = reinterpret_cast<const float*>(stage(now)) + t * pitch + w * 16 + 2 * r;
    const std::uint64_t b =
        wgmma_operand(stage(now) + L::gy_bytes + tap_row * L::x_columns * L::place, L::half, 8 * 16);
    std::uint32_t a[2][L::steps][4];  // words of two batches: one is read while the other is loaded
#pragma unroll
    for (int batch = 0; batch < L::batches; ++batch) {
      Block<L> block;
      if (batch < L::rounds && has_next) block.load(d, x, next, channel, batch);
      load_factors(factors + batch * L::steps * images * pitch, a[batch % 2]);
      wgmma_begin();
#pragma unroll
      for (int s = 0; s < L::steps; ++s)
#pragma unroll
        for (int tap = 0; tap < 3; ++tap)
          wgmma(sum[tap], a[batch % 2][s], b + (L::seen(batch * L::steps + s) + tap) * (L::place / 16));
      wgmma_end();
      if (batch < L::rounds && has_next) block.store(stage(now ^ 1) + L::gy_bytes, batch);
      wgmma_wait<1>();
    }
    wgmma_wait<0>();
  }
  store_sums<L::channels>(d, sum, output + w * 16 + 2 * r, channel, sums);
}

constexpr int most_runs = 8;  // runs of shares that a thread block adds side by side

__device__ void operator+=(float4& a, const float4& b) { a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w; }

/// A thread block adds the shares of a warp of quads.
__global__ void add_shares_kernel(const float4* sums, float4* gw, int quads, int shares) {
  __shared__ float4 runs[most_runs][warp];
  const int at = blockIdx.x * warp + threadIdx.x;
  float4 sum{};
  if (at < quads) {
#pragma unroll 4
    for (int k = threadIdx.y; k < shares; k += blockDim.y) sum += sums[std::int64_t{k} * quads + at];
  }
  runs[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || at >= quads) return;
  for (int k = 1; k < blockDim.y; ++k) sum += runs[k][threadIdx.x];
  gw[at] = sum;
}

template <int channels>
void launch(const WarpgroupConv& d, const Conv2dWeightGradArgs& a, float* sums) {
  using L = Layout<channels>;
  const cudaStream_t stream = stream_of(a.gw.device);
  check(cudaFuncSetAttribute(weight_grad_kernel<L>, cudaFuncAttributeMaxDynamicSharedMemorySize, L::shared));
  const dim3 grid(static_cast<unsigned>(d.shares), static_cast<unsigned>(d.o / outputs),
                  static_cast<unsigned>(d.c / channels));
  weight_grad_kernel<L><<<grid, threads, L::shared, stream>>>(d, a.x.as<float>(), a.gy.as<float>(), sums);
  check_launch();
  const int quads = d.o * taps * d.c / 4;
  const dim3 block(warp, static_cast<unsigned>(std::min(d.shares, most_runs)));
  add_shares_kernel<<<static_cast<unsigned>((quads + warp - 1) / warp), block, 0, stream>>>(
      reinterpret_cast<const float4*>(sums), reinterpret_cast<float4*>(a.gw.as<float>()), quads, d.shares);
  check_launch();
}

}  // namespace

void warpgroup_weight_grad(const Conv2dWeightGradArgs& a, void* ws) {
  const WarpgroupConv d{ConvSizes(a)};
  auto* const sums = static_cast<float*>(ws);
  d.channels == 64 ? launch<64>(d, a, sums) : launch<32>(d, a, sums);
}

}  // namespace bytetape::cuda
