#pragma once
// The tokens that attention to a cache reads: whose they are, where they are, and their way to shared memory.
#include <algorithm>
#include <bit>
#include <numbers>

#include "bytetape/core/kernels/cached_attention.h"
#include "bytetape/cuda/async_copy.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/overlap.h"

namespace bytetape::cuda::cached {

inline constexpr int columns = 8;  // of a thread
inline constexpr int warp = 32, warps = block_size / warp;
static_assert(most_cached_columns == warp * columns, "a group is at most a warp");
static_assert(most_cached_columns <= block_size, "a thread stores at most one column");

/// The keys of a group whose copies are in flight at once. With their values they take 128 bytes of shared memory for
/// each thread.
template <class T>
inline constexpr int together = 128 / (2 * columns * static_cast<int>(sizeof(T)));

inline constexpr int most_blocks = 8;  // of a query; not all GPUs allow more in a cluster
/// Whether a query may have several blocks. Their results in f64 would take too much shared memory.
template <class T>
inline constexpr bool may_split = sizeof(T) < 8;

/// A tensor (n, heads, tokens, d).
template <class T>
struct Tokens {
  T* data;
  std::int64_t strides[4];

  template <class V>
  explicit Tokens(const V& x) : data(x.template as<std::remove_const_t<T>>()) {
    std::copy_n(x.strides.begin(), 4, strides);
  }
  __device__ T* at(std::int64_t row, std::int64_t head, std::int64_t token) const {
    return data + row * strides[0] + head * strides[1] + token * strides[2];
  }
};

inline int threads_of_group(const CachedAttentionArgs& a) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(a.q.shape[3] + columns - 1) / columns));
}

template <class T>
struct Arguments {
  Tokens<const T> q, k, v;
  Tokens<T> keys, values, y;
  const std::int64_t* positions;
  std::int64_t position_step, bound;  // of positions
  std::int64_t rows;
  unsigned heads, heads_per_group, tokens;
  int d, along;        // columns of a head, threads of a group
  int blocks;          // of a query
  bool reads_early;    // positions and the cache, before the wait for earlier work
  compute_t<T> scale;  // of scores, whose exponentials are powers of 2
  FaultSlot faults;

  Arguments(const CachedAttentionArgs& a, int blocks)
      : q(a.q),
        k(a.k),
        v(a.v),
        keys(a.keys),
        values(a.values),
        y(a.y),
        positions(a.positions.as<std::int64_t>()),
        position_step(a.positions.strides[0]),
        bound(a.bound()),
        rows(a.q.shape[0]),
        heads(static_cast<unsigned>(a.q.shape[1])),
        heads_per_group(static_cast<unsigned>(a.q.shape[1] / a.k.shape[1])),
        tokens(static_cast<unsigned>(a.q.shape[2])),
        d(static_cast<int>(a.q.shape[3])),
        along(threads_of_group(a)),
        blocks(blocks),
        reads_early(may_read_early(a.positions, a.keys, a.values)),
        scale(static_cast<compute_t<T>>(a.scale * std::numbers::log2e)),
        faults(a.y.device) {}

  __device__ std::int64_t position(std::int64_t row) const { return positions[row * position_step]; }
  __device__ bool is_valid(std::int64_t position) const { return position >= 0 && position < bound; }
  /// Whether all positions are valid. Reports a fault of the first that is not. All threads of a block must call this.
  __device__ bool check_positions() const {
    bool are_valid = true;
#pragma unroll 1
    for (std::int64_t row = threadIdx.x; row < rows; row += block_size)
      are_valid = are_valid && is_valid(position(row));
    if (__syncthreads_and(are_valid)) return true;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      std::int64_t row = 0;
      while (is_valid(position(row))) ++row;
      leave(faults, {Fault::Kind::position, position(row), bound});
    }
    return false;
  }
};

/// New token i of a row, and a head. It attends to the row's tokens before `end`.
struct Query {
  unsigned i, head, row, kv_head;
  std::int64_t cached, end = 0;  // `end` stays 0 if `cached` is invalid

  template <class T>
  __device__ Query(const Arguments<T>& a, unsigned number)
      : i(number % a.tokens),
        head(number / a.tokens % a.heads),
        row(number / a.tokens / a.heads),
        kv_head(head / a.heads_per_group),
        cached(a.position(row)) {
    if (a.is_valid(cached)) end = cached + i + 1;
  }
};

/// A thread's place among the groups of all blocks of a query.
struct Place {
  int along, lane, group, groups;

  template <class T>
  __device__ Place(const Arguments<T>& a, int rank)
      : along(a.along),
        lane(static_cast<int>(threadIdx.x) & (along - 1)),
        group((rank * block_size + static_cast<int>(threadIdx.x)) / along),
        groups(a.blocks * block_size / along) {}
  /// The column of the thread's element c. Vectors of neighbouring threads are neighbours.
  template <class T>
  __device__ int column(int c) const {
    constexpr int width = vector_width<T>;
    return (c / width * along + lane) * width + c % width;
  }
};

/// A thread's columns of a round's keys and values, in shared memory. A thread reads only what it copied itself.
template <class T>
class Staging {
 public:
  static constexpr int width = vector_width<T>, pieces = columns / width;
  static constexpr std::size_t bytes = std::size_t{block_size} * together<T> * 2 * columns * sizeof(T);
  enum Part { key, value };

  __device__ explicit Staging(void* shared) : mine_(static_cast<Piece*>(shared) + threadIdx.x) {}

  /// Starts to copy the columns of a token. Those from d on are 0, and so are all if `is_there` is false.
  template <bool are_vectors>
  __device__ void copy(int u, Part part, const T* token, std::int64_t step, int d, const Place& at, bool is_there) {
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      const int first = at.column<T>(p * width);
      if constexpr (are_vectors) {
        copy_async(&slot(u, part, p), token + first, is_there && first < d);
      } else {
        Piece piece{};
        for (int c = 0; c < width; ++c)
          if (is_there && first + c < d) piece.values[c] = token[(first + c) * step];
        slot(u, part, p) = piece;
      }
    }
  }
  template <class C = compute_t<T>>
  __device__ void load(C (&to)[columns], int u, Part part) const {
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      const Piece piece = slot(u, part, p);
#pragma unroll
      for (int c = 0; c < width; ++c) to[p * width + c] = widened(piece.values[c]);
    }
  }

 private:
  using Piece = Packed<T, width>;
  __device__ Piece& slot(int u, Part part, int p) const { return mine_[((u * 2 + part) * pieces + p) * block_size]; }
  Piece* mine_;
};

/// Walks over the keys of a group, or their values: in the cache, and in the new tokens behind it.
template <class T>
class Walker {
 public:
  __device__ Walker(const Tokens<T>& cache, const Tokens<const T>& fresh, const Query& query, const Place& at)
      : cached_(cache.at(query.row, query.kv_head, at.group)),
        new_(fresh.at(query.row, query.kv_head, at.group - query.cached)),
        cached_step_(at.groups * cache.strides[2]),
        new_step_(at.groups * fresh.strides[2]) {}
  __device__ const T* token(bool is_cached) const { return is_cached ? cached_ : new_; }
  __device__ void advance() {
    cached_ += cached_step_;
    new_ += new_step_;
  }

 private:
  const T *cached_, *new_;
  std::int64_t cached_step_, new_step_;
};

/// Which tokens of a round to copy: all, those in the cache, or then the others.
enum class Which { all, cached, others };

/// Copies the keys and values of a group, round after round.
template <class T, bool are_vectors>
class Copies {
 public:
  __device__ Copies(const Arguments<T>& a, const Query& query, const Place& at)
      : keys_(a.keys, a.k, query, at), values_(a.values, a.v, query, at), j_(at.group) {}

  /// Starts to copy tokens of a round, and goes on to the next round unless `which` is only a part of it.
  template <Which which>
  __device__ void copy_round(const Arguments<T>& a, const Query& query, const Place& at, Staging<T>& staging) {
    Walker<T> keys = keys_, values = values_;
    std::int64_t j = j_;
#pragma unroll
    for (int u = 0; u < together<T>; ++u, j += at.groups) {
      const bool is_cached = j < query.cached, is_there = j < query.end;
      const auto copy = [&](auto part, Walker<T>& walker, const Tokens<T>& cache, const Tokens<const T>& fresh) {
        const std::int64_t step = is_cached ? cache.strides[3] : fresh.strides[3];
        if (which == Which::all || is_cached == (which == Which::cached))
          staging.template copy<are_vectors>(u, part, walker.token(is_cached), step, a.d, at, is_there);
        walker.advance();
      };
      copy(Staging<T>::key, keys, a.keys, a.k);
      copy(Staging<T>::value, values, a.values, a.v);
    }
    if (which == Which::cached) return;
    keys_ = keys;
    values_ = values;
    j_ = j;
  }

 private:
  Walker<T> keys_, values_;
  std::int64_t j_;
};

}  // namespace bytetape::cuda::cached
