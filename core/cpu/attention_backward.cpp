// Gradients of attention. Probabilities are recomputed from q, k and the rows' shifts and factors, tile by
// tile (Dao et al., "FlashAttention", 2022, algorithm 4). With P the probabilities, A = dropout(P), gA = gy v^T and gP
// = dropout(gA): gv = A^T gy, gS = P (gP - rowsum(gy y)), gq = scale gS k, gk = scale gS^T q. A thread takes all heads
// that read one head of k and v, and adds their gradients in order.
#include "bytetape/core/cpu/attention.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// A thread's scratch.
template <class C>
struct Scratch {
  C *q, *k, *v, *gy, *probabilities, *slopes, *gq, *gk, *gv, *products;
  void* packed;
  std::size_t bytes;

  Scratch(const AttentionSizes& s, void* data) {
    const std::int64_t rows = std::min(s.n, query_rows), cols = std::min(s.m, key_rows);  // of the largest tile
    ScratchParts<64> parts(data);
    q = parts.take<C>(rows * s.d);
    k = parts.take<C>(cols * s.d);
    v = parts.take<C>(std::max(rows, cols) * s.e);  // or rows of y
    gy = parts.take<C>(rows * s.e);
    probabilities = parts.take<C>(rows * key_rows);
    slopes = parts.take<C>(rows * key_rows);
    gq = parts.take<C>(s.heads_per_group() * s.n * s.d);
    gk = parts.take<C>(cols * s.d);
    gv = parts.take<C>(cols * s.e);
    products = parts.take<C>(s.heads_per_group() * s.n);
    packed = parts.take_bytes(
        std::max({gemm_scratch<C>(rows, cols, s.d), gemm_scratch<C>(rows, cols, s.e), gemm_scratch<C>(rows, s.d, cols),
                  gemm_scratch<C>(cols, s.d, rows), gemm_scratch<C>(cols, s.e, rows)}));
    bytes = parts.bytes();
  }
};

template <class C>
class HeadGroup {
 public:
  HeadGroup(const AttentionBackwardArgs& a, const AttentionSizes& size, std::int64_t unit, void* scratch)
      : a_(a), size_(size), batch_(unit / size.groups), group_(unit % size.groups), s_(size, scratch) {}

  void compute() {
    for (std::int64_t h = 0; h < size_.heads_per_group(); ++h) multiply_rows(h);
    std::fill_n(s_.gq, size_.heads_per_group() * size_.n * size_.d, C{0});
    for (std::int64_t j = 0; j < size_.m; j += key_rows) take_keys(j, std::min(key_rows, size_.m - j));
    if (a_.gq.defined())
      for (std::int64_t h = 0; h < size_.heads_per_group(); ++h)
        copy(view_of(row_major(s_.gq + h * size_.n * size_.d, size_.n, size_.d)),
             matrix_block(a_.gq, {batch_, head(h)}, 0, 0, size_.n, size_.d));
  }

 private:
  std::int64_t head(std::int64_t h) const { return group_ * size_.heads_per_group() + h; }
  Matrix<const C> load(const ConstView& x, std::int64_t head, std::int64_t row, std::int64_t rows, C* buffer) const {
    return load_block(matrix_block(x, {batch_, head}, row, 0, rows, x.shape[3]), buffer);
  }

  /// products = rowsum(gy y).
  void multiply_rows(std::int64_t h) {
    for (std::int64_t i = 0; i < size_.n; i += query_rows) {
      const std::int64_t rows = std::min(query_rows, size_.n - i);
      const auto gy = load(a_.gy, head(h), i, rows, s_.gy), y = load(a_.y, head(h), i, rows, s_.v);
      for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < size_.e; ++c)
          sum += static_cast<double>(gy.data[r * gy.row_step + c * gy.col_step]) *
                 static_cast<double>(y.data[r * y.row_step + c * y.col_step]);
        s_.products[h * size_.n + i + r] = static_cast<C>(sum);
      }
    }
  }

  /// Computes the gradients of a block of keys and values, and adds to gq.
  void take_keys(std::int64_t j, std::int64_t cols) {
    const auto k = load(a_.in.k, group_, j, cols, s_.k), v = load(a_.in.v, group_, j, cols, s_.v);
    std::fill_n(s_.gk, cols * size_.d, C{0});
    std::fill_n(s_.gv, cols * size_.e, C{0});
    const std::int64_t first = a_.in.is_causal ? j / query_rows * query_rows : 0;
    for (std::int64_t h = 0; h < size_.heads_per_group(); ++h)
      for (std::int64_t i = first; i < size_.n; i += query_rows) {
        const std::int64_t rows = std::min(query_rows, size_.n - i), end = size_.end_of_keys(i + rows);
        const Tile t{batch_, head(h), i, j, rows, std::min(cols, end - j)};
        take_tile(t, h, k.block(0, 0, t.cols, size_.d), v.block(0, 0, t.cols, size_.e));
      }
    const auto store = [&](const View& to, C* from, std::int64_t width) {
      if (to.defined())
        copy(view_of(row_major(from, cols, width)), matrix_block(to, {batch_, group_}, j, 0, cols, width));
    };
    store(a_.gk, s_.gk, size_.d);
    store(a_.gv, s_.gv, size_.e);
  }

  void take_tile(const Tile& t, std::int64_t h, Matrix<const C> k, Matrix<const C> v) {
    const auto q = load(a_.in.q, t.head, t.i, t.rows, s_.q), gy = load(a_.gy, t.head, t.i, t.rows, s_.gy);
    const auto probabilities = tile_matrix(s_.probabilities, t), slopes = tile_matrix(s_.slopes, t);
    compute_probabilities(t, q, k);
    for (std::int64_t r = 0; r < t.rows; ++r) std::fill_n(s_.slopes + r * key_rows, t.cols, C{0});
    gemm<C>(gy, v.transposed(), slopes, s_.packed);
    drop(a_.in, t, s_.slopes);
    for (std::int64_t r = 0; r < t.rows; ++r)
      tile_row(s_.slopes, r, t.cols) = tile_row(s_.probabilities, r, t.cols) *
                                       (tile_row(s_.slopes, r, t.cols) - s_.products[h * size_.n + t.i + r]) *
                                       static_cast<C>(a_.in.scale);
    if (a_.gq.defined())
      gemm<C>(slopes, k, row_major(s_.gq + (h * size_.n + t.i) * size_.d, t.rows, size_.d), s_.packed);
    if (a_.gk.defined()) gemm<C>(slopes.transposed(), q, row_major(s_.gk, t.cols, size_.d), s_.packed);
    if (!a_.gv.defined()) return;
    drop(a_.in, t, s_.probabilities);
    gemm<C>(probabilities.transposed(), gy, row_major(s_.gv, t.cols, size_.e), s_.packed);
  }

  void compute_probabilities(const Tile& t, Matrix<const C> q, Matrix<const C> k) {
    compute_scores(a_.in, t, q, k, s_.probabilities, s_.packed);
    const std::int64_t first = (t.batch * size_.heads + t.head) * size_.n + t.i;
    const C *shift = a_.shift.as<C>() + first, *factor = a_.factor.as<C>() + first;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      exp_row(s_.probabilities, r, t.cols, shift[r]);
      tile_row(s_.probabilities, r, t.cols) *= factor[r];
    }
  }

  const AttentionBackwardArgs& a_;
  const AttentionSizes& size_;
  const std::int64_t batch_, group_;
  const Scratch<C> s_;
};

Plan plan(const AttentionBackwardArgs& a) {
  const AttentionSizes size(a.in);
  return visit_floating(a.in.q.dtype, [&](auto zero) {
    return plan_units(size.batch * size.groups, Scratch<compute_t<decltype(zero)>>(size, nullptr).bytes);
  });
}

void launch(const AttentionBackwardArgs& a, const Plan&, Workspace ws) {
  const AttentionSizes size(a.in);
  visit_floating(a.in.q.dtype, [&](auto zero) {
    for_each_unit(size.batch * size.groups, ws, [&](std::int64_t unit, void* scratch) {
      HeadGroup<compute_t<decltype(zero)>>(a, size, unit, scratch).compute();
    });
  });
}

}  // namespace

const Planned<AttentionBackwardArgs> attention_backward{plan, launch};

}  // namespace bytetape::cpu
