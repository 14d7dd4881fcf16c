#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/cpu/attention/attention.h"

// Gradients of attention. Probabilities are recomputed from q, k and the rows' shifts and factors, tile by tile (Dao et
// al., "FlashAttention", 2022, algorithm 4). With P the probabilities, A = dropout(P), gA = gy v^T and gP =
// dropout(gA): gv = A^T gy, gS = P (gP - rowsum(gy y)), gq = scale gS k, gk = scale gS^T q.
//
// A unit has all heads that read one head of k and v. Its tiles are a grid of key blocks and query blocks. Each tile
// adds to gq of its queries, and to gk and gv of its keys. Sums have a fixed order (TileOrder), so the bits do not
// depend on the threads.
namespace bytetape::cpu {

/// The order in which a unit's tiles are added: gk and gv from the first query block of the first head to the last one,
/// gq from the last key block to the first. Tiles of one round have different key blocks and different query blocks.
struct TileOrder {
  static constexpr std::int64_t ratio = key_rows / query_rows;
  static_assert(ratio >= 1, "causal key blocks begin at different query blocks");

  AttentionSizes size;
  std::int64_t key_blocks, query_blocks;  // query_blocks: of one head

  explicit TileOrder(const AttentionInputs& in)
      : size(in),
        key_blocks((size.m + key_rows - 1) / key_rows),
        query_blocks((size.n + query_rows - 1) / query_rows) {}
  std::int64_t units() const { return size.batch * size.groups; }
  std::int64_t all_query_blocks() const { return size.heads_per_group() * query_blocks; }
  /// The first query block that attends to key block j.
  std::int64_t first_queries(std::int64_t j) const { return size.is_causal ? std::min(j * ratio, query_blocks) : 0; }
  /// The last key block that query block i attends to.
  std::int64_t last_keys(std::int64_t i) const {
    return size.is_causal ? std::min(i / ratio, key_blocks - 1) : key_blocks - 1;
  }
  /// The number of tiles of key block j. Tile `s` of them is in round first_round(j) + s.
  std::int64_t tiles(std::int64_t j) const { return size.heads_per_group() * (query_blocks - first_queries(j)); }
  std::int64_t first_round(std::int64_t j) const { return size.is_causal ? 0 : key_blocks - 1 - j; }
  std::int64_t rounds() const { return all_query_blocks() + first_round(0); }
  /// The most tiles of a round.
  std::int64_t width() const { return std::min(key_blocks, all_query_blocks()); }
};

/// A thread's scratch for a tile.
template <class C>
struct TileScratch {
  C *q, *k, *v, *gy, *k_transposed, *v_transposed, *probabilities, *slopes;
  std::size_t bytes;

  TileScratch(const AttentionSizes& s, void* data) {
    const std::int64_t rows = std::min(s.n, query_rows), cols = std::min(s.m, key_rows);  // of the largest tile
    ScratchParts<64> parts(data);
    q = parts.take<C>(rows * s.d);
    k = parts.take<C>(cols * s.d);
    v = parts.take<C>(std::max(rows, cols) * s.e);  // or rows of y
    gy = parts.take<C>(rows * s.e);
    probabilities = parts.take<C>(rows * key_rows);
    slopes = parts.take<C>(rows * key_rows);
    k_transposed = parts.take<C>(cols * s.d);
    v_transposed = parts.take<C>(cols * s.e);
    bytes = parts.bytes();
  }
};

/// Rows of a tensor (b, h, n, width), of head `head`. It is number `h` of its unit.
struct HeadRows {
  std::int64_t batch, head, h, first, count;

  View of(const View& x) const { return matrix_block(x, {batch, head}, first, 0, count, x.shape[3]); }
};

/// A gradient that tiles add to: in its own memory, or in a sum of the computed type.
template <class C>
class GradSum {
 public:
  /// The sum has the heads of a unit.
  GradSum(const View& g, std::int64_t heads, ScratchParts<64>& parts)
      : g_(g), is_in_place_(!g.defined() || (g.dtype == dtype_of<C> && g.strides[3] == 1)) {
    if (!is_in_place_) sums_ = parts.take<C>(heads * g.shape[2] * g.shape[3]);
  }
  bool defined() const { return g_.defined(); }
  /// Returns where tiles add.
  Matrix<C> sum(const HeadRows& rows) const {
    if (!is_in_place_)
      return row_major(sums_ + (rows.h * g_.shape[2] + rows.first) * g_.shape[3], rows.count, g_.shape[3]);
    const View v = rows.of(g_);
    return {v.as<C>(), rows.count, g_.shape[3], v.strides[0], 1};
  }
  void clear(const HeadRows& rows) const {
    if (!defined()) return;
    const Matrix<C> m = sum(rows);
    for (std::int64_t r = 0; r < m.rows; ++r) std::fill_n(m.data + r * m.row_step, m.cols, C{0});
  }
  /// Stores a sum that is complete.
  void store(const HeadRows& rows) const {
    if (!is_in_place_) copy(view_of(sum(rows)), rows.of(g_));
  }

 private:
  const View& g_;
  bool is_in_place_;
  C* sums_ = nullptr;
};

/// A unit, with the sums of its gradients.
template <class C>
class HeadGroup {
 public:
  HeadGroup(const AttentionBackwardArgs& a, const TileOrder& order, std::int64_t unit, void* sums)
      : HeadGroup(a, order, unit, ScratchParts<64>(sums)) {}

  /// The bytes of the sums.
  std::size_t bytes() const { return bytes_; }

  /// Sets the gradients of blocks without tiles to 0.
  void clear_rest() const {
    for (std::int64_t j = 0; j < order_.key_blocks; ++j)
      if (order_.tiles(j) == 0)
        for (const GradSum<C>* g : {&gk_, &gv_}) g->clear(keys(j)), g->store(keys(j));
    if (order_.key_blocks > 0) return;
    for (std::int64_t h = 0; h < size_.heads_per_group(); ++h)
      for (std::int64_t i = 0; i < order_.query_blocks; ++i) gq_.clear(queries(h, i)), gq_.store(queries(h, i));
  }

  /// Adds tile `s` of key block j.
  void take_tile(std::int64_t j, std::int64_t s, const TileScratch<C>& scratch) const {
    const std::int64_t first = order_.first_queries(j), per_head = order_.query_blocks - first, h = s / per_head,
                       i = first + s % per_head;
    const HeadRows keys = this->keys(j), queries = this->queries(h, i);
    if (j == order_.last_keys(i)) {
      gq_.clear(queries);
      multiply_rows(queries, scratch);
    }
    if (s == 0) gk_.clear(keys), gv_.clear(keys);
    add_tile(queries, keys, scratch);
    if (s == order_.tiles(j) - 1) gk_.store(keys), gv_.store(keys);
    if (j == 0) gq_.store(queries);
  }

  void take_all_tiles(const TileScratch<C>& scratch) const {
    for (std::int64_t j = order_.key_blocks - 1; j >= 0; --j)
      for (std::int64_t s = 0; s < order_.tiles(j); ++s) take_tile(j, s, scratch);
  }

 private:
  HeadGroup(const AttentionBackwardArgs& a, const TileOrder& order, std::int64_t unit, ScratchParts<64> parts)
      : a_(a),
        order_(order),
        size_(order.size),
        batch_(unit / std::max<std::int64_t>(size_.groups, 1)),
        group_(unit % std::max<std::int64_t>(size_.groups, 1)),
        gq_(a.gq, size_.heads_per_group(), parts),
        gk_(a.gk, 1, parts),
        gv_(a.gv, 1, parts),
        products_(parts.take<C>(size_.heads_per_group() * size_.n)),
        bytes_(parts.bytes()) {}

  HeadRows keys(std::int64_t j) const {
    return {batch_, group_, 0, j * key_rows, std::min(key_rows, size_.m - j * key_rows)};
  }
  HeadRows queries(std::int64_t h, std::int64_t i) const {
    return {batch_, group_ * size_.heads_per_group() + h, h, i * query_rows,
            std::min(query_rows, size_.n - i * query_rows)};
  }
  C* products(const HeadRows& queries) const { return products_ + queries.h * size_.n + queries.first; }
  static ConstView block(const ConstView& x, const HeadRows& rows, std::int64_t count) {
    return matrix_block(x, {rows.batch, rows.head}, rows.first, 0, count, x.shape[3]);
  }
  static Matrix<const C> load(const ConstView& x, const HeadRows& rows, std::int64_t count, C* buffer) {
    return load_block(block(x, rows, count), buffer);
  }

  /// products = rowsum(gy y).
  void multiply_rows(const HeadRows& queries, const TileScratch<C>& scratch) const {
    const auto gy = load(a_.gy, queries, queries.count, scratch.gy), y = load(a_.y, queries, queries.count, scratch.v);
    for (std::int64_t r = 0; r < queries.count; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < size_.e; ++c)
        sum += static_cast<double>(gy.data[r * gy.row_step + c * gy.col_step]) *
               static_cast<double>(y.data[r * y.row_step + c * y.col_step]);
      products(queries)[r] = static_cast<C>(sum);
    }
  }

  /// The matrices that a tile is made from.
  struct Factors {
    Matrix<const C> q, gy, k, k_transposed, v_transposed;
  };

  void add_tile(const HeadRows& queries, const HeadRows& keys, const TileScratch<C>& s) const {
    const std::int64_t end = size_.end_of_keys(queries.first + queries.count);
    const Tile t{batch_,     queries.head,  queries.first,
                 keys.first, queries.count, std::min(keys.count, end - keys.first)};
    const auto q = load_factor(block(a_.in.q, queries, t.rows), s.q),
               gy = load_factor(block(a_.gy, queries, t.rows), s.gy), k = load(a_.in.k, keys, t.cols, s.k),
               v = load(a_.in.v, keys, t.cols, s.v);
    const auto k_transposed = with_unit_col_step<C>(k.transposed(), s.k_transposed),
               v_transposed = with_unit_col_step<C>(v.transposed(), s.v_transposed);
    const Factors factors{q, gy, with_unit_col_step<C>(k, s.k), k_transposed, v_transposed};
    for_parts(a_.in.is_causal, t,
              [&](const Tile& part, std::int64_t r) { add_part(part, r, factors, queries, keys, s); });
  }

  /// Adds a part of a tile, from the tile's row r on.
  void add_part(const Tile& t, std::int64_t r, const Factors& f, const HeadRows& queries, const HeadRows& keys,
                const TileScratch<C>& s) const {
    const auto probabilities = tile_matrix(s.probabilities, t), slopes = tile_matrix(s.slopes, t);
    const auto q = f.q.block(r, 0, t.rows, size_.d), gy = f.gy.block(r, 0, t.rows, size_.e);
    compute_probabilities(t, q, f.k_transposed.block(0, 0, size_.d, t.cols), s);
    compute_slopes(t, gy, f.v_transposed.block(0, 0, size_.e, t.cols), products(queries) + r, s);
    if (gq_.defined())
      add_product<C>(slopes, f.k.block(0, 0, t.cols, size_.d), gq_.sum(queries).block(r, 0, t.rows, size_.d));
    if (gk_.defined()) add_product<C>(slopes.transposed(), q, gk_.sum(keys).block(0, 0, t.cols, size_.d));
    if (!gv_.defined()) return;
    drop(a_.in, t, s.probabilities);
    add_product<C>(probabilities.transposed(), gy, gv_.sum(keys).block(0, 0, t.cols, size_.e));
  }

  void compute_probabilities(const Tile& t, Matrix<const C> q, Matrix<const C> k_transposed,
                             const TileScratch<C>& s) const {
    compute_scores(a_.in, t, q, k_transposed, s.probabilities);
    const std::int64_t first = (t.batch * size_.heads + t.head) * size_.n + t.i;
    const C *shift = a_.shift.as<C>() + first, *factor = a_.factor.as<C>() + first;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      exp_row(s.probabilities, r, t.cols, shift[r]);
      tile_row(s.probabilities, r, t.cols) *= factor[r];
    }
  }

  /// slopes = scale P (dropout(gy v^T) - products).
  void compute_slopes(const Tile& t, Matrix<const C> gy, Matrix<const C> v_transposed, const C* products,
                      const TileScratch<C>& s) const {
    for (std::int64_t r = 0; r < t.rows; ++r) std::fill_n(s.slopes + r * key_rows, t.cols, C{0});
    add_product<C>(gy, v_transposed, tile_matrix(s.slopes, t));
    drop(a_.in, t, s.slopes);
    for (std::int64_t r = 0; r < t.rows; ++r)
      tile_row(s.slopes, r, t.cols) = tile_row(s.probabilities, r, t.cols) *
                                      (tile_row(s.slopes, r, t.cols) - products[r]) * static_cast<C>(a_.in.scale);
  }

  const AttentionBackwardArgs& a_;
  const TileOrder& order_;
  const AttentionSizes& size_;
  const std::int64_t batch_, group_;
  const GradSum<C> gq_, gk_, gv_;
  C* const products_;
  const std::size_t bytes_;
};

}  // namespace bytetape::cpu
