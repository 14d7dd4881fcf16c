// Attention of new tokens to a cache. A block computes one query, or a cluster of blocks does if there are few. The
// threads form groups. A group takes every n-th key, and each of its threads eight columns of the head. A round's keys
// and values are copied to shared memory together. A group keeps a running maximum, a sum and an output of its own
// (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018). At the end the groups, warps and blocks
// are combined in a fixed order.
//
// The keys and values of new tokens are read from k and v, because other blocks may not have written them to the cache
// yet. The first block of the first head that reads a head of the cache writes them there.
#include "bytetape/cuda/attention/cached_attention.cuh"

#include <limits>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/cluster.cuh"
#include "bytetape/cuda/runtime/overlap.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

using namespace cached;

template <class C>
constexpr C infinity = std::numeric_limits<C>::infinity();

/// Returns what exponents are relative to: the largest score, or 0 if all are -infinity so far.
template <class C>
__device__ C pivot_of(C largest) {
  return largest == -infinity<C> ? C{0} : largest;
}

/// The softmax of some of a query's keys so far: their largest score, the sum of powers of 2 relative to it, and the
/// thread's columns of the sum of values with these weights.
template <class C>
struct Partial {
  C largest = -infinity<C>, sum = 0, out[columns] = {};

  /// Makes the sums relative to another maximum.
  __device__ void rescale(C maximum) {
    const C factor = ::exp2(largest - pivot_of(maximum));
    largest = maximum;
    sum *= factor;
#pragma unroll
    for (C& o : out) o *= factor;
  }
};

/// One column of the sum of several partial softmaxes. `largest` must be their maximum before the first is added.
template <class C>
struct Softmax {
  C largest = -infinity<C>, sum = 0, out = 0;

  __device__ void add(C their_largest, C their_sum, C their_out) {
    const C factor = ::exp2(their_largest - pivot_of(largest));
    sum += factor * their_sum;
    out += factor * their_out;
  }
};

/// Adds a round to the group's softmax. `left` keys remain, from the round's first on.
template <class T, class C = compute_t<T>>
__device__ void attend(const Arguments<T>& a, const C (&query)[columns], const Place& at, std::int64_t left,
                       const Staging<T>& staging, Partial<C>& partial) {
  constexpr int keys = together<T>;
  C scores[keys];
#pragma unroll
  for (int u = 0; u < keys; ++u) {
    C key[columns];
    staging.load(key, u, Staging<T>::key);
    scores[u] = 0;
#pragma unroll
    for (int c = 0; c < columns; ++c) scores[u] += query[c] * key[c];
  }
  reduce_warp(Plus(), scores, at.along);
  C largest = partial.largest;
#pragma unroll
  for (int u = 0; u < keys; ++u) {
    scores[u] = u * at.groups + at.group < left ? scores[u] * a.scale : -infinity<C>;
    largest = max(largest, scores[u]);
  }
  partial.rescale(largest);
#pragma unroll
  for (int u = 0; u < keys; ++u) {
    C value[columns];
    staging.load(value, u, Staging<T>::value);
    const C weight = ::exp2(scores[u] - pivot_of(largest));
    partial.sum += weight;
#pragma unroll
    for (int c = 0; c < columns; ++c) partial.out[c] += weight * value[c];
  }
}

/// Combines the groups of a warp. Each thread gets the sums of its columns over them.
template <class C>
__device__ void combine_groups(Partial<C>& partial, int along) {
  C largest = partial.largest;
  for (int mask = along; mask < warp; mask *= 2) largest = max(largest, shuffle(largest, mask));
  partial.rescale(largest);
  for (int mask = along; mask < warp; mask *= 2) {
    partial.sum += shuffle(partial.sum, mask);
#pragma unroll
    for (C& o : partial.out) o += shuffle(o, mask);
  }
}

/// Combines the warps of the block. Thread c gets column c. `outs` has along * columns elements for each warp.
template <class T, class C = compute_t<T>>
__device__ Softmax<C> combine_warps(const Arguments<T>& a, const Place& at, const Partial<C>& partial, C* outs) {
  __shared__ C largest[warps], sums[warps];
  const int t = static_cast<int>(threadIdx.x), w = t / warp, pitch = at.along * columns;
  __syncthreads();  // no thread reads its staging any more, which `outs` overwrites
  if (t % warp < at.along)
#pragma unroll
    for (int c = 0; c < columns; ++c) outs[w * pitch + at.column<T>(c)] = partial.out[c];
  if (t % warp == 0) {
    largest[w] = partial.largest;
    sums[w] = partial.sum;
  }
  __syncthreads();
  Softmax<C> all;
#pragma unroll
  for (int i = 0; i < warps; ++i) all.largest = max(all.largest, largest[i]);
#pragma unroll
  for (int i = 0; i < warps; ++i) all.add(largest[i], sums[i], outs[i * pitch + min(t, a.d - 1)]);
  return all;
}

/// Combines the blocks of a cluster. Returns whether this block has the result, as the first one does.
template <class C>
__device__ bool combine_blocks(Softmax<C>& of_block, int blocks, int rank) {
  __shared__ C outs[most_blocks][most_cached_columns], largest[most_blocks], sums[most_blocks];
  wait_for_cluster();  // the first block has started
  const int column = static_cast<int>(threadIdx.x);
  *of_rank(&outs[rank][column], 0) = of_block.out;
  if (column == 0) {
    *of_rank(&largest[rank], 0) = of_block.largest;
    *of_rank(&sums[rank], 0) = of_block.sum;
  }
  arrive_at_cluster();
  wait_for_cluster();
  if (rank != 0) return false;
  of_block = {};
  for (int b = 0; b < blocks; ++b) of_block.largest = max(of_block.largest, largest[b]);
  for (int b = 0; b < blocks; ++b) of_block.add(largest[b], sums[b], outs[b][column]);
  return true;
}

template <class T, bool are_vectors, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size, sizeof(T) < 8 ? 4 : 2)
    cached_attention_kernel(Turn turn, const __grid_constant__ Arguments<T> a) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ C shared_query[most_cached_columns];
  const auto blocks = static_cast<unsigned>(a.blocks);
  const int column = static_cast<int>(threadIdx.x), rank = static_cast<int>(blockIdx.x % blocks);
  if (may_split<T> && a.blocks > 1) announce_to_cluster();
  if (!a.reads_early) wait_for_earlier_work(turn);
  const Place at(a, rank);
  const Query query(a, blockIdx.x / blocks);
  Staging<T> staging(memory);
  Copies<T, are_vectors> copies(a, query, at);
  if (a.reads_early) {
    copies.template copy_round<Which::cached>(a, query, at, staging);
    wait_for_earlier_work(turn);
  }
  const bool has_column = column < a.d, writes = has_column && rank == 0 && query.head % a.heads_per_group == 0;
  // The column of this query's token.
  const auto of_token = [&](const auto& x, unsigned head, std::int64_t token) {
    return x.at(query.row, head, token) + column * x.strides[3];
  };
  T new_key{}, new_value{};
  if (writes) {
    new_key = *of_token(a.k, query.kv_head, query.i);
    new_value = *of_token(a.v, query.kv_head, query.i);
  }
  if (a.reads_early)
    copies.template copy_round<Which::others>(a, query, at, staging);
  else
    copies.template copy_round<Which::all>(a, query, at, staging);
  if (column < a.along * columns)
    shared_query[column] = has_column ? widened(*of_token(a.q, query.head, query.i)) : C{0};
  if (!a.check_positions()) {
    wait_for_copies();
    if (may_split<T> && a.blocks > 1) wait_for_cluster();
    if (has_column && rank == 0) *of_token(a.y, query.head, query.i) = T{};
    return;
  }
  if (writes) {
    *of_token(a.keys, query.kv_head, query.cached + query.i) = new_key;
    *of_token(a.values, query.kv_head, query.cached + query.i) = new_value;
  }
  C mine[columns];
#pragma unroll
  for (int c = 0; c < columns; ++c) mine[c] = shared_query[at.column<T>(c)];
  Partial<C> partial;
  // The number of rounds is the block's, because all threads of a warp take part in its reductions.
  for (std::int64_t left = query.end;;) {
    wait_for_copies();
    attend(a, mine, at, left, staging, partial);
    left -= at.groups * together<T>;
    if (left <= 0) break;
    copies.template copy_round<Which::all>(a, query, at, staging);
  }
  combine_groups(partial, a.along);
  Softmax<C> all = combine_warps(a, at, partial, reinterpret_cast<C*>(memory));
  if constexpr (may_split<T>)
    if (a.blocks > 1 && !combine_blocks(all, a.blocks, rank)) return;
  if (has_column) *of_token(a.y, query.head, query.i) = narrowed<T>(all.out / all.sum);
}

/// Whether all tokens of x are vectors of 16 bytes at aligned addresses.
template <class T>
bool has_vectors(const ConstView& x) {
  return cuda::has_vectors(x, 3, vector_width<T>);
}

/// Returns the blocks of a query: several if there are few queries, and one block would take several rounds for the
/// whole cache.
template <class T>
int blocks_of_query(const CachedAttentionArgs& a, unsigned queries) {
  constexpr unsigned enough = 264;  // blocks that keep a large GPU busy
  if (!may_split<T> || !can_overlap(a.y.device)) return 1;
  const std::int64_t of_round = block_size / threads_of_group(a) * together<T>;
  int blocks = 1;
  while (blocks < most_blocks && queries * 2 * static_cast<unsigned>(blocks) <= enough &&
         a.keys.shape[2] > blocks * of_round)
    blocks *= 2;
  return blocks;
}

void cached_attention(const CachedAttentionArgs& args) {
  if (args.y.numel() == 0) return;
  visit_floating(args.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto queries = static_cast<unsigned>(args.q.shape[0] * args.q.shape[1] * args.q.shape[2]);
    const bool are_vectors =
        has_vectors<T>(args.k) && has_vectors<T>(args.v) && has_vectors<T>(args.keys) && has_vectors<T>(args.values);
    const int blocks = blocks_of_query<T>(args, queries);
    const auto kernel = are_vectors ? cached_attention_kernel<T, true> : cached_attention_kernel<T, false>;
    launch_overlapping({.device = args.y.device,
                        .blocks = queries * static_cast<unsigned>(blocks),
                        .threads = block_size,
                        .shared_bytes = Staging<T>::bytes,
                        .cluster = blocks,
                        .writes = {&args.y, &args.keys, &args.values}},
                       kernel, Arguments<T>(args, blocks));
  });
}

}  // namespace

const CachedAttentionKernels& cached_attention_kernels() {
  static const CachedAttentionKernels all{
      .cached_attention = cached_attention,
  };
  return all;
}

}  // namespace bytetape::cuda
