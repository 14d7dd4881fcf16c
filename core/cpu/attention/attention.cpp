// Attention in tiles of scores. Softmax is computed online: when a tile raises a row's maximum, the row's sum and
// output so far are scaled down (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022). So memory does not grow with n times m.
#include "bytetape/core/cpu/attention/attention.h"

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// A thread's scratch.
template <class C>
struct Scratch {
  C *q, *k, *v, *transposed, *scores, *out, *largest, *sums;
  std::size_t bytes;

  Scratch(const AttentionSizes& s, void* data) {
    const std::int64_t rows = std::min(s.n, query_rows), cols = std::min(s.m, key_rows);  // of the largest tile
    ScratchParts<64> parts(data);
    q = parts.take<C>(rows * s.d);
    k = parts.take<C>(cols * s.d);
    v = parts.take<C>(cols * s.e);
    scores = parts.take<C>(rows * key_rows);
    out = parts.take<C>(rows * s.e);
    largest = parts.take<C>(rows);
    sums = parts.take<C>(rows);
    transposed = parts.take<C>(cols * s.d);
    bytes = parts.bytes();
  }
  /// The scratch of the rows from r on, with outputs of e columns.
  Scratch from(std::int64_t r, std::int64_t e) const {
    Scratch s = *this;
    s.scores += r * key_rows;
    s.out += r * e;
    s.largest += r;
    s.sums += r;
    return s;
  }
};

/// Adds a tile of scores to the rows' maxima and sums, and scales their outputs so far. The scores become unnormalised
/// probabilities.
template <class C>
void normalise(const Tile& t, std::int64_t e, const Scratch<C>& s) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const C before = s.largest[r], largest = std::max<C>(before, tile_row(s.scores, r, t.cols).maxCoeff());
    const C shift = std::isinf(largest) && largest < 0 ? C{0} : largest;  // no key yet: exp(-inf - 0) is 0
    const C factor = std::exp(before - shift);
    s.sums[r] = s.sums[r] * factor + exp_row(s.scores, r, t.cols, shift);
    s.largest[r] = largest;
    if (factor != 1) Eigen::Map<Array<C>>(s.out + r * e, e) *= factor;
  }
}

/// Divides the outputs by the sums. Stores the outputs, shifts and factors.
template <class C>
void store(const AttentionArgs& a, const Tile& t, std::int64_t e, const Scratch<C>& s) {
  const std::int64_t first = (t.batch * a.factor.shape[1] + t.head) * a.factor.shape[2] + t.i;
  C *const shift = a.shift.as<C>() + first, *const factor = a.factor.as<C>() + first;
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const bool has_keys = s.sums[r] != 0;
    shift[r] = has_keys ? s.largest[r] : C{0};
    factor[r] = has_keys ? 1 / s.sums[r] : C{0};
    Eigen::Map<Array<C>>(s.out + r * e, e) *= factor[r];
  }
  copy(view_of(row_major(s.out, t.rows, e)), matrix_block(a.y, {t.batch, t.head}, t.i, 0, t.rows, e));
}

/// Adds the keys of a part of a tile, from its row r on, to the part's queries. The scratch begins with them.
template <class C>
void attend(const AttentionInputs& in, const Tile& part, std::int64_t r, Matrix<const C> q,
            Matrix<const C> k_transposed, Matrix<const C> v, const Scratch<C>& s) {
  compute_scores(in, part, q.block(r, 0, part.rows, q.cols), k_transposed.block(0, 0, q.cols, part.cols), s.scores);
  normalise(part, v.cols, s);
  drop(in, part, s.scores);
  add_product<C>(tile_matrix(s.scores, part), v.block(0, 0, part.cols, v.cols), row_major(s.out, part.rows, v.cols));
}

template <class C>
void attend(const AttentionArgs& a, const AttentionSizes& size, std::int64_t unit, void* scratch) {
  const AttentionInputs& in = a.in;
  const Scratch<C> s(size, scratch);
  const std::int64_t blocks = (size.n + query_rows - 1) / query_rows;
  Tile t{.batch = unit / (blocks * size.heads), .head = unit / blocks % size.heads, .i = unit % blocks * query_rows};
  t.rows = std::min(query_rows, size.n - t.i);
  const std::int64_t group = t.head / size.heads_per_group();
  const auto q = load_block(matrix_block(in.q, {t.batch, t.head}, t.i, 0, t.rows, size.d), s.q);
  std::fill_n(s.largest, t.rows, -std::numeric_limits<C>::infinity());
  std::fill_n(s.sums, t.rows, C{0});
  std::fill_n(s.out, t.rows * size.e, C{0});
  for (const std::int64_t end = size.end_of_keys(t.i + t.rows); t.j < end; t.j += key_rows) {
    t.cols = std::min(key_rows, end - t.j);
    const auto block_of = [&](const ConstView& x) {
      return matrix_block(x, {t.batch, group}, t.j, 0, t.cols, x.shape[3]);
    };
    const auto k = with_unit_col_step<C>(load_block(block_of(in.k), s.k).transposed(), s.transposed),
               v = load_factor(block_of(in.v), s.v);
    for_parts(in.is_causal, t,
              [&](const Tile& part, std::int64_t r) { attend(in, part, r, q, k, v, s.from(r, size.e)); });
  }
  store(a, t, size.e, s);
}

std::int64_t units_of(const AttentionSizes& s) { return s.batch * s.heads * ((s.n + query_rows - 1) / query_rows); }

Plan plan(const AttentionArgs& a) {
  const AttentionSizes size(a.in);
  return visit_floating(a.y.dtype, [&](auto zero) {
    return plan_units(units_of(size), Scratch<compute_t<decltype(zero)>>(size, nullptr).bytes);
  });
}

void attention(const AttentionArgs& a, const Plan&, Workspace ws) {
  const AttentionSizes size(a.in);
  visit_floating(a.y.dtype, [&](auto zero) {
    for_each_unit(units_of(size), ws,
                  [&](std::int64_t unit, void* scratch) { attend<compute_t<decltype(zero)>>(a, size, unit, scratch); });
  });
}

}  // namespace

const AttentionKernels& attention_kernels() {
  static const AttentionKernels all{
      .attention = {plan, attention},
      .attention_backward = attention_backward,
  };
  return all;
}

}  // namespace bytetape::cpu
