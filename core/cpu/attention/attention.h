#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/core/cpu/attention/tile_product.h"
#include "bytetape/core/cpu/matrix_block.h"
#include "bytetape/core/cpu/philox_blocks.h"
#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/slices.h"
#include "bytetape/core/kernels/attention.h"
#include "bytetape/core/kernels/scratch_parts.h"

// Tiles of attention scores, for forward and backward.
namespace bytetape::cpu {

// A tile's scores (f32: 64 KiB) and the blocks of q, k and v that it reads fit an L2 cache. Tiles depend on the shapes
// alone, so the number of threads does not change the bits.
inline constexpr std::int64_t query_rows = 64, key_rows = 256;
inline constexpr std::int64_t part_rows = 16;  // queries that get the same keys in a tile that a causal mask cuts

/// The scores of queries i.. and keys j.. of one head.
struct Tile {
  std::int64_t batch, head, i, j, rows, cols;
};

/// Calls f(part, r) for parts of a tile. A part begins at the tile's row r. It leaves out keys that a causal mask hides
/// from all queries of the part.
template <class F>
void for_parts(bool is_causal, const Tile& t, const F& f) {
  const bool shows_all = !is_causal || t.i + 1 >= t.j + t.cols;
  const std::int64_t step = shows_all ? t.rows : part_rows;
  for (std::int64_t r = 0; r < t.rows; r += step) {
    Tile part = t;
    part.i += r;
    part.rows = std::min(step, t.rows - r);
    if (!shows_all) part.cols = std::clamp<std::int64_t>(part.i + part.rows - t.j, 0, t.cols);
    f(part, r);
  }
}

/// Row r of a tile. Rows are `key_rows` apart and padded to whole vectors.
template <class C>
Eigen::Map<Array<C>, Eigen::Aligned64> tile_row(C* tile, std::int64_t r, std::int64_t cols) {
  return {tile + r * key_rows, cols};
}
template <class C>
Matrix<C> tile_matrix(C* tile, const Tile& t) {
  return {tile, t.rows, t.cols, key_rows, 1};
}

/// Adds the mask to row r of a tile, or sets scores to -inf where a bool mask is false.
template <class C>
void add_mask(const ConstView& mask, const Tile& t, std::int64_t r, C* row) {
  if (!mask.defined()) return;
  const Strides& s = mask.strides;
  const std::int64_t at = t.batch * s[0] + t.head * s[1] + (t.i + r) * s[2] + t.j * s[3];
  if (mask.dtype == DType::boolean) {
    const bool* allowed = mask.as<bool>() + at;
    for (std::int64_t c = 0; c < t.cols; ++c) row[c] = allowed[c * s[3]] ? row[c] : -std::numeric_limits<C>::infinity();
  } else {
    const C* addend = mask.as<C>() + at;
    for (std::int64_t c = 0; c < t.cols; ++c) row[c] += addend[c * s[3]];
  }
}

/// Returns a block that add_product() reads as its second matrix. `buffer` has room for its elements.
template <class C>
Matrix<const C> load_factor(const ConstView& x, C* buffer) {
  return with_unit_col_step<C>(load_block(x, buffer), buffer);
}

/// scores = scale q k^T + mask, and -inf where a query may not attend to a key, for q (rows, d) and k^T (d, cols).
template <class C>
void compute_scores(const AttentionInputs& in, const Tile& t, Matrix<const C> q, Matrix<const C> k_transposed,
                    C* scores) {
  for (std::int64_t r = 0; r < t.rows; ++r) std::fill_n(scores + r * key_rows, t.cols, C{0});
  add_product<C>(q, k_transposed, tile_matrix(scores, t));
  for (std::int64_t r = 0; r < t.rows; ++r) {
    C* const row = scores + r * key_rows;
    tile_row(scores, r, t.cols) *= static_cast<C>(in.scale);
    add_mask(in.mask, t, r, row);
    if (in.is_causal) {
      const std::int64_t allowed = std::clamp<std::int64_t>(t.i + r + 1 - t.j, 0, t.cols);
      std::fill(row + allowed, row + t.cols, -std::numeric_limits<C>::infinity());
    }
  }
}

/// Replaces row r of a tile by exp(row - shift), and returns its sum.
template <class C>
C exp_row(C* tile, std::int64_t r, std::int64_t cols, C shift) {
  C* const row = tile + r * key_rows;
  const std::int64_t padded = (cols + 15) / 16 * 16;
  tile_row(tile, r, cols) -= shift;
  std::fill(row + cols, row + padded, -std::numeric_limits<C>::infinity());
  exp_vectors(row, padded);
  return tile_row(tile, r, padded).sum();
}

/// Drops and scales elements of a tile of probabilities, or of their gradients.
template <class C>
void drop(const AttentionInputs& in, const Tile& t, C* tile) {
  if (in.p == 0) return;
  const AttentionSizes size(in);
  const std::uint32_t threshold = dropout_threshold(in.p);
  const C scale = static_cast<C>(1 / (1 - in.p));
  for (std::int64_t r = 0; r < t.rows; ++r) {
    C* const row = tile + r * key_rows;
    const std::int64_t first = ((t.batch * size.heads + t.head) * size.n + t.i + r) * size.m + t.j;
    for_each_word(in.state, first, t.cols, [&](std::int64_t c, std::uint32_t word) {
      row[c] = dropout_keeps(word, threshold) ? row[c] * scale : C{0};
    });
  }
}

/// Splits `units` of work among the threads, each with its part of the workspace: f(unit, scratch).
template <class F>
void for_each_unit(std::int64_t units, Workspace ws, const F& f) {
  if (units == 0) return;
  const std::size_t bytes = ws.bytes / static_cast<std::size_t>(slices_of(units));
  share(units, [&](std::int64_t unit, std::int64_t slice) {
    f(unit, static_cast<char*>(ws.data) + static_cast<std::size_t>(slice) * bytes);
  });
}
/// The workspace of for_each_unit(), with `bytes` of scratch for each thread.
inline Plan plan_units(std::int64_t units, std::size_t bytes) {
  return {.workspace = bytes * static_cast<std::size_t>(slices_of(units))};
}

/// Defined in attention_backward.cpp.
extern const Planned<AttentionBackwardArgs> attention_backward;

}  // namespace bytetape::cpu
