#pragma once
// Reductions over the threads of a block, each in a fixed order. f(a, b) combines two values. All threads of the block
// must call these functions.
#include <cstdint>

namespace bytetape::cuda {

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

template <class V>
__device__ V shuffle(V v, int mask) {
  return static_cast<V>(__shfl_xor_sync(~0u, v, mask));
}

/// Reduces each v[k] over `along` adjacent threads, a power of two up to a warp. Each thread gets the results.
template <class F, int K, class V>
__device__ void reduce_warp(const F& f, V (&v)[K], int along = 32) {
  for (int mask = along / 2; mask > 0; mask /= 2)
    for (int k = 0; k < K; ++k) v[k] = f(v[k], shuffle(v[k], mask));
}

/// How the results of a group's warps combine. sequential: in order, from the first one on. from_zero: added in order
/// to 0, which differs if all are -0. For both, the group is the block. tree: by halves, in groups of a power of two.
enum class WarpOrder { sequential, from_zero, tree };

/// Combines the results v[k] of the warps of each group of `along` adjacent threads, more than a warp. Each thread gets
/// the results of its group. `most_warps` are in a block.
template <WarpOrder order, int most_warps, class F, int K, class V>
__device__ void reduce_warps(const F& f, V (&v)[K], int along) {
  __shared__ V shared[K][most_warps];
  const int t = threadIdx.x, warps = along / 32;
  __syncthreads();  // all threads have read the previous call's values
  if (t % 32 == 0)
    for (int k = 0; k < K; ++k) shared[k][t / 32] = v[k];
  __syncthreads();
  for (int k = 0; k < K; ++k) {
    if constexpr (order == WarpOrder::tree) {
      v[k] = shared[k][(t & -along) / 32 + (t & (warps - 1))];
      for (int mask = warps / 2; mask > 0; mask /= 2) v[k] = f(v[k], shuffle(v[k], mask));
    } else {
      constexpr int from = order == WarpOrder::sequential ? 1 : 0;
      v[k] = from == 1 ? shared[k][0] : V{};
      for (int w = from; w < warps; ++w) v[k] = f(v[k], shared[k][w]);
    }
  }
}

/// Reduces each v[k] over groups of `along` adjacent threads: a power of two up to a warp, or whole warps. Combines
/// within warps, then across warps. Each thread gets the results of its group.
template <WarpOrder order, int most_warps, class F, int K, class V>
__device__ void reduce_block(const F& f, V (&v)[K], int along) {
  reduce_warp(f, v, min(along, 32));
  if (along > 32) reduce_warps<order, most_warps>(f, v, along);
}
/// The same for one value.
template <WarpOrder order, int most_warps, class F, class V>
__device__ V reduce_block(const F& f, V v, int along) {
  V one[1] = {v};
  reduce_block<order, most_warps>(f, one, along);
  return one[0];
}

/// Reduces each v[k] over the `along` threads that are `across` apart, by halves. `at` is the thread's position among
/// them. The thread at position 0 gets the results, and leaves them in its column of the array that is returned.
template <int threads, class F, int K, class V>
__device__ auto reduce_apart(const F& f, V (&v)[K], int at, int along, int across) -> V (&)[K][threads] {
  __shared__ V shared[K][threads];
  const int t = threadIdx.x;
#pragma unroll
  for (int k = 0; k < K; ++k) shared[k][t] = v[k];
  for (int half = along / 2; half > 0; half /= 2) {
    __syncthreads();
    if (at < half) {
#pragma unroll
      for (int k = 0; k < K; ++k) shared[k][t] = v[k] = f(v[k], shared[k][t + half * across]);
    }
  }
  return shared;
}

}  // namespace bytetape::cuda
