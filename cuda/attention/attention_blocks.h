#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "bytetape/core/kernels/attention.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/cuda/matmul/matmul_layout.h"

/// How an attention is cut into matrix products, for plan and launch alike. This is host code that needs no toolkit.
///
/// A chunk has all queries of some batches and groups. It is cut into blocks of queries and heads. The scores of a
/// block, and what is computed from them, are in memory at once.
namespace bytetape::cuda {

/// The most bytes of a block. A single row of scores may be larger.
inline constexpr std::int64_t most_block_bytes = std::int64_t{64} << 20;

/// A chunk, or one of its blocks: queries i to i + rows of some heads, and keys 0 to `keys`. Ends are exclusive.
struct AttentionBlock {
  std::int64_t batch, batches, group, groups;
  std::int64_t head, heads;  // within each group
  std::int64_t i, rows, keys;

  constexpr std::int64_t count() const { return batches * groups * heads * rows; }
};

/// The chunks and blocks of an attention. They depend on shapes and dtypes alone.
struct AttentionBlocks {
  AttentionSizes size;
  std::int64_t pitch;                         // elements from one row of scores to the next
  std::int64_t rows, heads, groups, batches;  // of the largest block

  /// A block has `bytes` for each score.
  AttentionBlocks(const AttentionInputs& in, std::size_t bytes);

  /// Returns the bytes of a block for `width` columns of `element` bytes.
  std::size_t bytes(std::int64_t width, std::size_t element) const {
    return static_cast<std::size_t>(batches * groups * heads * rows * width) * element;
  }
  /// Returns a block that is at least as large as each block, in each size.
  AttentionBlock largest() const { return {0, batches, 0, groups, 0, heads, 0, rows, size.end_of_keys(size.n)}; }

  /// Calls f(chunk) for the chunks, in order.
  template <class F>
  void for_chunks(const F& f) const {
    for (std::int64_t batch = 0; batch < size.batch; batch += batches)
      for (std::int64_t group = 0; group < size.groups; group += groups)
        f(AttentionBlock{batch, std::min(batches, size.batch - batch), group, std::min(groups, size.groups - group), 0,
                         size.heads_per_group(), 0, size.n, size.end_of_keys(size.n)});
  }
  /// Calls f(block) for the blocks of a chunk. The last queries come first, because they attend to the most keys.
  template <class F>
  void for_blocks(const AttentionBlock& chunk, const F& f) const {
    for (std::int64_t i = (size.n - 1) / rows * rows; i >= 0; i -= rows)
      for (std::int64_t head = 0; head < chunk.heads; head += heads) {
        AttentionBlock b = chunk;
        b.head = head, b.heads = std::min(heads, chunk.heads - head);
        b.i = i, b.rows = std::min(rows, size.n - i);
        b.keys = size.end_of_keys(i + b.rows);
        f(b);
      }
  }
  /// Whether a block is the first of its chunk.
  bool is_first(const AttentionBlock& b) const { return b.i + b.rows == size.n && b.head == 0; }

  // Matrices of a block as views (batch, group, head, row, column).

  /// Returns rows [first, first + count) of x, which has the heads of q or those of k. All heads of a group share the
  /// latter.
  template <class V>
  V matrices(const V& x, const AttentionBlock& b, std::int64_t first, std::int64_t count) const {
    const bool is_shared = x.shape[1] != size.heads;
    const std::int64_t head_step = is_shared ? 0 : x.strides[1],
                       group_step = is_shared ? x.strides[1] : x.strides[1] * size.heads_per_group();
    const Strides strides{x.strides[0], group_step, head_step, x.strides[2], x.strides[3]};
    const std::int64_t at = b.batch * strides[0] + b.group * strides[1] + b.head * strides[2] + first * strides[3];
    return moved(
        V(const_cast<void*>(x.data()), x.dtype, x.device, {b.batches, b.groups, b.heads, count, x.shape[3]}, strides),
        at);
  }
  /// Returns the block's queries of x, which has the shape of q or y.
  template <class V>
  V queries(const V& x, const AttentionBlock& b) const {
    return matrices(x, b, b.i, b.rows);
  }
  /// Returns the block's keys of x, which has the shape of k or v.
  ConstView keys(const ConstView& x, const AttentionBlock& b) const { return matrices(x, b, 0, b.keys); }
  /// Returns the block's scores in `data`.
  View scores(void* data, DType dtype, Device device, const AttentionBlock& b) const {
    return dense(data, dtype, device, {b.batches, b.groups, b.heads, b.rows, b.keys}, pitch);
  }

  /// Returns matrices in `data` with rows that are `pitch` elements apart.
  static View dense(void* data, DType dtype, Device device, const Shape& shape, std::int64_t pitch) {
    const std::int64_t head = shape[3] * pitch, group = shape[2] * head, batch = shape[1] * group;
    return View(data, dtype, device, shape, {batch, group, head, pitch, 1});
  }
  /// Returns x with another first element, `by` elements further. Null stays null.
  template <class V>
  static V moved(const V& x, std::int64_t by) {
    if (!x.data()) return x;
    char* const data = static_cast<char*>(const_cast<void*>(x.data()));
    return V(data + by * static_cast<std::int64_t>(size_of(x.dtype)), x.dtype, x.device, x.shape, x.strides);
  }
};

/// Returns x with its matrices transposed.
inline ConstView transposed(ConstView x) {
  std::swap(x.shape[3], x.shape[4]);
  std::swap(x.strides[3], x.strides[4]);
  return x;
}

/// Whether products can be written to x (batch, head, row, column) in place.
inline bool is_row_major(const ConstView& x) {
  const ConstView matrix(nullptr, x.dtype, x.device, {1, x.shape[2], x.shape[3]}, {0, x.strides[2], x.strides[3]});
  const MatrixLayout layout = layout_of(matrix);
  return layout.leading > 0 && !layout.transposed;
}

/// A function that takes each of several products.
using ForProduct = std::function<void(const MatmulArgs&)>;

/// Calls f for products that together compute y = a b, or y += a b if `adds`.
void for_products(const ConstView& a, const ConstView& b, const View& y, bool adds, const ForProduct& f);

}  // namespace bytetape::cuda
