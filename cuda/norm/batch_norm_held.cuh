#pragma once
// Batch normalisation in one launch, for small images: their pixels are read once, and held in registers while the
// numbers of the channels are computed. A cluster of blocks has all pixels of some channels. Every block merges the
// numbers of the cluster's blocks, in their order.
#include <limits>

#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm_runs.cuh"
#include "bytetape/cuda/runtime/cluster.cuh"
#include "bytetape/cuda/runtime/overlap.cuh"

namespace bytetape::cuda {

/// All pixels, `stride` elements apart, and the number of a cluster's blocks.
struct Held {
  int count, stride, ranks;
};

/// The block's place: its cluster's channels, and its pixels.
template <int lanes, int per_thread>
struct HeldPlace {
  const int count, stride, ranks;
  const int rank = static_cast<int>(blockIdx.x) % ranks;
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int channels = static_cast<int>(blockDim.x) * lanes;
  const int block_channel = static_cast<int>(blockIdx.x) / ranks * channels;  // the first one of the block
  const int channel = block_channel + static_cast<int>(threadIdx.x) * lanes;  // of the thread

  __device__ explicit HeldPlace(const Held& held) : count(held.count), stride(held.stride), ranks(held.ranks) {}
  __device__ int block_pixels() const { return static_cast<int>(blockDim.y) * per_thread; }
  __device__ int pixel(int u) const {
    return rank * block_pixels() + u * static_cast<int>(blockDim.y) + static_cast<int>(threadIdx.y);
  }
  /// Whether the image has the thread's pixel u. If not, load_pixels() loads the last one: no load waits for a branch.
  __device__ bool is_pixel(int u) const { return pixel(u) < count; }
  __device__ int offset(int u) const { return min(pixel(u), count - 1) * stride + channel; }
  /// Loads pixels u = from, from + 1, ... of an image.
  template <class T, int n>
  __device__ void load_pixels(Packed<T, lanes> (&to)[n], const T* image, int from = 0) const {
#pragma unroll
    for (int u = 0; u < n; ++u) to[u] = load<lanes>(image + offset(from + u));
    keep_packed(to);
  }
  /// Whether this thread computes the numbers of the channel block_channel + thread.
  __device__ bool has_channel() const { return thread < channels; }
};

/// The numbers of a channel that the blocks of a cluster have.
template <class C>
struct RankPairs {
  static constexpr int size = most_ranks;
  const C* first;
  const C* second;
  int stride;                // between two blocks
  int ranks, length, count;  // blocks, pixels of a block, and in all

  __device__ Pair<C> at(int rank) const {
    return rank < ranks ? Pair<C>{first[rank * stride], second[rank * stride]} : Pair<C>{};
  }
  __device__ C pixels(int rank) const { return static_cast<C>(max(min(count - rank * length, length), 0)); }
};

/// Merges the accumulators of a cluster's threads. Returns the numbers of the channel block_channel + thread, if there
/// is one. Every thread of the cluster must call this, after announce_to_cluster() if it has several blocks.
template <template <class, int> class A, class C, int lanes, int per_thread>
__device__ Pair<C> merge_cluster(A<C, lanes>& mine, const HeldPlace<lanes, per_thread>& at) {
  const Pair<C> of_block = merge_rows<widest_held>(mine, at.thread, blockDim.x);
  if (at.ranks == 1) return of_block;
  __shared__ C first[most_ranks][widest_held * lanes], second[most_ranks][widest_held * lanes];
  wait_for_cluster();  // all blocks have started
  if (at.has_channel())
    for (int to = 0; to < at.ranks; ++to) {
      *of_rank(&first[at.rank][at.thread], to) = of_block.first;
      *of_rank(&second[at.rank][at.thread], to) = of_block.second;
    }
  arrive_at_cluster();
  wait_for_cluster();
  if (!at.has_channel()) return {};
  return A<C, lanes>::merged(RankPairs<C>{&first[0][at.thread], &second[0][at.thread], widest_held * lanes, at.ranks,
                                          at.block_pixels(), at.count});
}

/// Launches a kernel that holds images of the dtype T in registers. The first image is written. The images must be
/// small, channels-last, aligned and of one layout, with offsets below 2^31. The device must have clusters, and at
/// least most_held_blocks multiprocessors. Calls f(held, geometry, pixels of a thread) for the launch, and returns
/// whether it did. A thread holds 4 pixels, or up to most_per_thread (4 or 8).
template <class T, int most_per_thread, std::size_t K, class F>
bool launch_held(const std::array<const ConstView*, K>& images, const F& f) {
  constexpr int lanes = 16 / sizeof(T);
  const Pixels<1> pixels({images[0]});
  const Device device = images[0]->device;
  if (!can_overlap(device) || processors(device) < most_held_blocks || !pixels.fits(lanes) || pixels.dims.rank > 1)
    return false;
  for (const ConstView* image : images)
    if (!is_aligned(*image) || !same_layout(images[0]->shape, image->strides, images[0]->strides)) return false;
  const std::int64_t stride = pixels.dims.strides[0][0];
  const std::optional<HeldTiles> tiles = held_tiles(pixels.channels / lanes, pixels.count, most_per_thread);
  if (!tiles || pixels.count * stride + pixels.channels > std::numeric_limits<int>::max()) return false;
  const Launch geometry{.device = device,
                        .blocks = static_cast<unsigned>(tiles->columns * tiles->ranks),
                        .threads = dim3(static_cast<unsigned>(tiles->width), run_threads / tiles->width),
                        .cluster = tiles->ranks};
  const Held held{static_cast<int>(pixels.count), static_cast<int>(stride), tiles->ranks};
  if (tiles->per_thread == 4)
    f(held, geometry, std::integral_constant<int, 4>());
  else
    f(held, geometry, std::integral_constant<int, most_per_thread>());
  return true;
}

}  // namespace bytetape::cuda
