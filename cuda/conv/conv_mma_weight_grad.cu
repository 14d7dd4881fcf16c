// The weight's gradient. gy is loaded into registers, where pairs of pixels form words. Patches are gathered from x in
// shared memory.
#include "bytetape/cuda/conv/conv_mma.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

using namespace conv_mma_detail;

/// Applies relu's gradient to a word of gy: zero where relu's result y is 0.
template <class T>
__device__ std::uint32_t through_relu(std::uint32_t gy, std::uint32_t y) {
  if constexpr (std::is_same_v<T, float>) return __uint_as_float(y) <= 0 ? 0 : gy;
  // The upper bit of each half says whether its other bits are not all 0. It is copied to all bits of the half.
  std::uint32_t mask;
  asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(mask) : "r"((y & 0x7fff7fff) + 0x7fff7fff));
  return gy & mask;
}

/// A thread's part of gy for the pixels that its warp processes at a time: vector r of pixels t, t + 4, t + 8 and t +
/// 12. With relu, also the part of y.
template <class T, bool relu>
struct Gradient {
  Vector g[4], y[relu ? 4 : 1];

  /// Loads pixels from `start` on of a tile of `count` pixels. Beyond the tile, they are zero.
  __device__ void load(const MmaConv& d, const T* gy, const T* result, const Place* places, int start, int count,
                       bool is_output, bool is_aligned) {
    for (int p = 0; p < 4; ++p) {
      const int pixel = start + 4 * p + static_cast<int>(threadIdx.x) % 4;
      const bool is_there = is_output && pixel < count;
      const std::uint32_t at = is_there ? places[pixel].y * static_cast<std::uint32_t>(d.o) : 0;
      g[p] = is_there ? Vector::load(gy + at, is_aligned) : Vector{};
      if constexpr (relu) y[p] = is_there ? Vector::load(result + at, is_aligned) : Vector{};
    }
  }
  __device__ void mask() {
    if constexpr (relu)
      for (int p = 0; p < 4; ++p)
        for (int w = 0; w < 4; ++w) g[p].words[w] = through_relu<T>(g[p].words[w], y[p].words[w]);
  }
  /// Returns word w of row 2 m (`row` 0) or 2 m + 1 (1) of a product. Rows are the outputs of the vectors.
  __device__ std::uint32_t word(int m, int row, int w) const {
    if constexpr (std::is_same_v<T, float>)
      return __float_as_uint(factor(__uint_as_float(g[w].words[2 * m + row])));
    else
      return __byte_perm(g[2 * w].words[m], g[2 * w + 1].words[m], row == 0 ? 0x5410 : 0x7632);
  }
};

/// Gathers a thread's words of the patches of the same pixels, as columns 8 j + r of products. The column behind a
/// patch is ones.
template <class T, int columns, int words>
__device__ void gather_columns(const MmaConv& d, const T* values, const Place* places, int start, int count,
                               const int (&offsets)[columns], std::uint32_t (&b)[columns][words]) {
  constexpr T one(1.f);
  const int r = threadIdx.x % warp / 4, t = threadIdx.x % 4;
  int at[4];
  std::uint32_t masks[words] = {};  // masks of pixels: an infinity times a zero of gy would be NaN
  for (int p = 0; p < 4; ++p) {
    const int pixel = start + 4 * p + t;
    at[p] = places[min(pixel, count - 1)].x;
    if (pixel < count) masks[p / per_word<T>] |= element_mask<T>(p % per_word<T>);
  }
  for (int j = 0; j < columns; ++j)
    for (int w = 0; w < words; ++w) {
      T of_word[per_word<T>];
      for (int e = 0; e < per_word<T>; ++e)
        of_word[e] = 8 * j + r == d.patch() ? one : values[at[w * per_word<T> + e] + offsets[j]];
      b[j][w] = word_of<T>(of_word) & masks[w];
    }
}

/// Adds the sums of the block's warps in order.
template <class T, int columns>
__device__ void add_warps(const MmaConv& d, const float (&sum)[vector<T> / 2][columns][4], float* parts, float* sums) {
  constexpr int v = vector<T>, pitch = group<T> + 1;  // avoids bank conflicts when columns are written
  const int r = threadIdx.x % warp / 4, t = threadIdx.x % 4, first_output = blockIdx.x * group<T>;
  __syncthreads();
  for (int m = 0; m < v / 2; ++m)
    for (int j = 0; j < columns; ++j)
      for (int k = 0; k < 4; ++k) {
        const int row = (threadIdx.x / warp * columns + j) * 8 + 2 * t + k % 2;
        parts[row * pitch + r * v + 2 * m + k / 2] = sum[m][j][k];
      }
  __syncthreads();
  for (int i = threadIdx.x; i < (d.patch() + 1) * group<T>; i += threads) {
    const int row = i / group<T>, column = i % group<T>;
    if (first_output + column >= d.o) continue;
    float all = 0;
    for (int w = 0; w < warps; ++w) all += parts[(w * columns * 8 + row) * pitch + column];
    sums[(blockIdx.y * d.sum_rows() + row) * d.o + first_output + column] = all;
  }
}

/// Thread block (g, b) sums the tiles of share b for the outputs of group g into sums[b]: (taps, c, o), and then o
/// values for the bias. Rows of products are outputs, columns are elements of a patch, and the sum is over pixels. If
/// gy passes through relu, it is masked by relu's result y.
template <class T, int padded, bool relu>
__global__ void __launch_bounds__(threads, MmaConv::weight_grad_blocks)
    weight_grad_kernel(MmaConv d, Image<T> x, const T* gy, const T* y, float* sums, bool is_aligned) {
  constexpr int v = vector<T>, columns = padded / 8, words = 4 / per_word<T>;
  extern __shared__ Vector shared[];
  T* const values = reinterpret_cast<T*>(shared);
  Place* const places = reinterpret_cast<Place*>(shared + d.values / sizeof(Vector));
  const int lane = threadIdx.x % warp, r = lane / 4, own_offset = lane < d.patch() ? d.offset(lane) : 0;
  const int output = blockIdx.x * group<T> + r * v;
  int offsets[columns];
  for (int j = 0; j < columns; ++j) offsets[j] = __shfl_sync(whole_warp, own_offset, 8 * j + r);
  float sum[v / 2][columns][4] = {};
  const auto end = static_cast<int>(d.tiles * (blockIdx.y + 1) / d.blocks);
  for (auto i = static_cast<int>(d.tiles * blockIdx.y / d.blocks); i < end; ++i) {
    const Tile tile(d, i);
    __syncthreads();
    load_tile(d, x, tile, values, places);
    __syncthreads();
    const std::int64_t from = std::int64_t{tile.first(d)} * d.o + output;
    Gradient<T, relu> next;
    const auto load = [&](int start) {
      next.load(d, gy + from, y + from, places, start, tile.count, output < d.o, is_aligned);
    };
    int start = threadIdx.x / warp * rows;
    load(start);
    for (; start < tile.count; start += warps * rows) {
      Gradient<T, relu> g = next;
      g.mask();
      load(start + warps * rows);
      std::uint32_t b[columns][words];
      gather_columns(d, values, places, start, tile.count, offsets, b);
      for (int m = 0; m < v / 2; ++m)
        for (int w = 0; w < words; w += 2) {
          const std::uint32_t a[4] = {g.word(m, 0, w), g.word(m, 1, w), g.word(m, 0, w + 1), g.word(m, 1, w + 1)};
          for (int j = 0; j < columns; ++j) multiply_add<T>(sum[m][j], a, b[j][w], b[j][w + 1]);
        }
    }
  }
  add_warps<T>(d, sum, reinterpret_cast<float*>(shared), sums);
}

}  // namespace

void mma_weight_grad(const Conv2dWeightGradArgs& a, void* ws) {
  const MmaConv d(ConvSizes(a), ConvMap::weight_grad);
  const cudaStream_t stream = stream_of(a.gy.device);
  const dim3 grid(static_cast<unsigned>(d.output_groups), static_cast<unsigned>(d.blocks));
  auto* sums = static_cast<float*>(ws);
  visit(d, a.gy.dtype, [&](auto zero, auto padded) {
    using T = decltype(zero);
    constexpr int p = decltype(padded)::value;
    const auto kernel =
        a.activation == Activation::relu ? weight_grad_kernel<T, p, true> : weight_grad_kernel<T, p, false>;
    const bool aligned = are_aligned({&a.gy, &a.y});
    kernel<<<grid, threads, d.shared, stream>>>(d, Image<T>(a.x), a.gy.as<T>(), a.y.as<T>(), sums, aligned);
  });
  check_launch();
  add_blocks(d, sums, a);
}

}  // namespace bytetape::cuda
