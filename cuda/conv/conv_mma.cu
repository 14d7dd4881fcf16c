// Forward. The patches of a tile are the rows of a matrix that is never stored. Threads gather their words of the
// matrix from x in shared memory, and hold their words of the weight in registers.
#include "bytetape/cuda/conv/conv_mma.cuh"

#include <limits>

#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

using namespace conv_mma_detail;

/// Stores the weight of the outputs from `first` on as columns of the products, then their bias. Product j computes a
/// part of half j / (vector / 2) of the outputs. Its thread (r, t) uses words 8 s + t and 8 s + t + 4 of column r,
/// which are stored at ((s, j), r, t).
template <class T, int padded>
__device__ void load_weight(const MmaConv& d, const Weight<const T>& weight, const T* bias, int first,
                            std::uint32_t* words, float* biases) {
  constexpr int v = vector<T>, held = 2 * warp, at_once = threads / held;
  const int half = threadIdx.x % 2, t = threadIdx.x / 2 % 4, r = threadIdx.x % held / 8;
  for (int s = 0; s < steps<T, padded>; ++s) {
    const T* from[per_word<T>];
    for (int e = 0; e < per_word<T>; ++e) {
      const int k = (8 * s + 4 * half + t) * per_word<T> + e, tap = k / d.c;
      from[e] = k < d.patch() ? &weight.at(d, 0, k - tap * d.c, tap) : nullptr;
    }
#pragma unroll
    for (int i = 0; i < v / at_once; ++i) {
      const int j = i * at_once + threadIdx.x / held;
      const int output = first + (j / (v / 2) * 4 + r / 2) * v + j % (v / 2) * 2 + r % 2;
      T of_word[per_word<T>] = {};
      for (int e = 0; e < per_word<T>; ++e)
        if (from[e] && output < d.o) of_word[e] = factor(from[e][output * weight.output_step]);
      words[(s * v + j) * held + threadIdx.x % held] = word_of<T>(of_word);
    }
  }
  for (int i = threadIdx.x; i < group<T>; i += threads)
    biases[i] = bias && first + i < d.o ? widened(bias[first + i]) : 0.f;
}

/// The offsets of a thread's words of a patch, as rows of forward's products.
template <class T, int padded>
struct PatchWords {
  static constexpr int s_end = steps<T, padded>;
  int offsets[s_end][2][per_word<T>];
  std::uint32_t masks[s_end][2];  // masks of elements: an infinity beyond a patch, times a zero weight, would be NaN

  __device__ explicit PatchWords(const MmaConv& d) {
    const int lane = threadIdx.x % warp, t = lane % 4, own = lane < d.patch() ? d.offset(lane) : 0;
    for (int s = 0; s < s_end; ++s)
      for (int half = 0; half < 2; ++half) {
        masks[s][half] = 0;
        for (int e = 0; e < per_word<T>; ++e) {
          const int k = (8 * s + 4 * half + t) * per_word<T> + e;
          offsets[s][half][e] = __shfl_sync(whole_warp, own, k);
          if (k < d.patch()) masks[s][half] |= element_mask<T>(e);
        }
      }
  }
  /// Gathers the words of the patch in row r (`i` 0) or r + 8 (1).
  __device__ void gather(const T* patch, int i, std::uint32_t (&a)[s_end][4]) const {
    for (int s = 0; s < s_end; ++s)
      for (int half = 0; half < 2; ++half) {
        T of_word[per_word<T>];
        for (int e = 0; e < per_word<T>; ++e) of_word[e] = patch[offsets[s][half][e]];
        a[s][2 * half + i] = word_of<T>(of_word) & masks[s][half];
      }
  }
};

/// Returns max(v, least), or NaN if v is NaN.
__device__ float bounded(float v, float least) {
  float max;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(max) : "f"(v), "f"(least));
  return max;
}

/// Returns a thread's outputs in row r (`i` 0) or r + 8 (1) of the products of a half.
template <class T>
__device__ Vector outputs_of(const float (&sum)[vector<T> / 2][4], int i, float least) {
  Vector out;
  for (int w = 0; w < 4; ++w) {
    float of_word[per_word<T>];
    for (int e = 0; e < per_word<T>; ++e) {
      const int k = w * per_word<T> + e;
      of_word[e] = bounded(sum[k / 2][2 * i + k % 2], least);
    }
    out.words[w] = narrowed_word<T>(of_word);
  }
  return out;
}

/// Thread block (t, g) computes the outputs of group g for tile t. Rows of products are pixels.
template <class T, int padded>
__global__ void __launch_bounds__(threads, MmaConv::forward_blocks)
    forward_kernel(MmaConv d, Image<T> x, Weight<const T> weight, const T* bias, T* y, float least, bool is_aligned) {
  constexpr int v = vector<T>, of_half = v / 2, s_end = steps<T, padded>;
  extern __shared__ Vector shared[];
  T* const values = reinterpret_cast<T*>(shared);
  Place* const places = reinterpret_cast<Place*>(shared + d.values / sizeof(Vector));
  std::uint32_t* const words = reinterpret_cast<std::uint32_t*>(places + MmaConv::most_pixels);
  float* const biases = reinterpret_cast<float*>(words + padded * group<T> / per_word<T>);
  const Tile tile(d, blockIdx.x);
  const int first_output = blockIdx.y * group<T>;
  load_tile(d, x, tile, values, places);
  load_weight<T, padded>(d, weight, bias, first_output, words, biases);
  const PatchWords<T, padded> patch_words(d);
  __syncthreads();
  const int lane = threadIdx.x % warp, r = lane / 4, t = lane % 4;
  uint2 b[s_end][v];
  float of_bias[v][2];
  for (int j = 0; j < v; ++j) {
    for (int s = 0; s < s_end; ++s) b[s][j] = reinterpret_cast<const uint2*>(words)[(s * v + j) * warp + lane];
    for (int e = 0; e < 2; ++e) of_bias[j][e] = biases[(j / of_half * 4 + t) * v + j % of_half * 2 + e];
  }
  T* const to = y + tile.first(d) * static_cast<std::uint32_t>(d.o);
  for (int start = threadIdx.x / warp * rows; start < tile.count; start += warps * rows) {
    std::uint32_t a[s_end][4], pixels[2];
    for (int i = 0; i < 2; ++i) {
      const Place place = places[min(start + r + 8 * i, tile.count - 1)];
      pixels[i] = place.y;
      patch_words.gather(values + place.x, i, a);
    }
    for (int half = 0; half < 2; ++half) {
      float sum[of_half][4];
      for (int j = 0; j < of_half; ++j)
        for (int k = 0; k < 4; ++k) sum[j][k] = of_bias[half * of_half + j][k % 2];
      for (int s = 0; s < s_end; ++s)
        for (int j = 0; j < of_half; ++j)
          multiply_add<T>(sum[j], a[s], b[s][half * of_half + j].x, b[s][half * of_half + j].y);
      const int output = first_output + (half * 4 + t) * v;
      for (int i = 0; i < 2; ++i)
        if (output < d.o && start + r + 8 * i < tile.count)
          outputs_of<T>(sum, i, least).store(to + pixels[i] * static_cast<std::uint32_t>(d.o) + output, is_aligned);
    }
  }
}

}  // namespace

void mma_forward(const Conv2dArgs& a) {
  const MmaConv d(ConvSizes(a), ConvMap::forward);
  const cudaStream_t stream = stream_of(a.y.device);
  const dim3 grid(static_cast<unsigned>(d.tiles), static_cast<unsigned>(d.output_groups));
  const float least = a.activation == Activation::relu ? 0.f : -std::numeric_limits<float>::infinity();
  visit(d, a.y.dtype, [&](auto zero, auto padded) {
    using T = decltype(zero);
    forward_kernel<T, decltype(padded)::value><<<grid, threads, d.shared, stream>>>(
        d, Image<T>(a.x), Weight<const T>(a.weight), a.bias.as<T>(), a.y.as<T>(), least, is_aligned(a.y));
  });
  check_launch();
}

}  // namespace bytetape::cuda
