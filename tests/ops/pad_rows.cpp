#include <limits>

#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

/// Where element i of a padded dim of n comes from; outside of [0, n): from nowhere.
std::int64_t source(std::int64_t i, std::int64_t n, PadMode mode) {
  if (mode == PadMode::replicate) return std::clamp<std::int64_t>(i, 0, n - 1);
  if (mode == PadMode::reflect) return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
  return i;
}

OpRow pad_row(const std::string& variant, const std::vector<std::int64_t>& padding, PadMode mode, double value,
              const Cases& cases, const Case& large, const std::vector<BadInput>& bads) {
  const Reference reference = [=](A x) {
    Shape shape = x[0].shape;
    Dims before = Dims::filled(shape.size(), 0);
    for (std::size_t i = 0; 2 * i < padding.size(); ++i) {
      const int d = shape.size() - 1 - static_cast<int>(i);
      before[d] = padding[2 * i];
      shape[d] += padding[2 * i] + padding[2 * i + 1];
    }
    Array y(shape, value);
    for_each_index(shape, [&](const Dims& at) {
      Dims from = at;
      for (int d = 0; d < shape.size(); ++d) {
        from[d] = source(at[d] - before[d], x[0].size(d), mode);
        if (from[d] < 0 || from[d] >= x[0].size(d)) return;
      }
      y(at) = x[0](from);
    });
    return y;
  };
  return {.op = "pad",
          .variant = variant,
          .f = [=](X x) { return pad(x[0], padding, mode, value); },
          .reference = reference,
          .cases = cases,
          .bad = bads,
          .large = large};
}

/// Whose last two dims have three elements or more.
const Cases wide{{in(3, 4)},
                 {in(2, 3, 5)},
                 {in(0, 3, 4)},
                 {in(4, 3).transposed()},
                 {in(3, 5).narrowed()},
                 {in(4, 3).expanded()},
                 {in(3, 4).spaced()},
                 {in(2, 3, 4, 3).channels_last()}};

/// A row of tril or triu. is_kept(j - i, diagonal) tells the elements in row i and column j that are not 0.
OpRow triangle_row(const std::string& op, const std::string& variant, Tensor (*f)(const Tensor&, std::int64_t),
                   std::int64_t diagonal, bool (*is_kept)(std::int64_t, std::int64_t), const Case& large) {
  return {.op = op,
          .variant = variant,
          .f = [=](X x) { return f(x[0], diagonal); },
          .reference =
              [=](A x) {
                Array y = x[0];
                for_each_index(y.shape, [&](const Dims& at) {
                  if (!is_kept(at[at.size() - 1] - at[at.size() - 2], diagonal)) y(at) = 0;
                });
                return y;
              },
          .cases = matrices,
          .bad = {bad<ShapeError>("expected matrices (..., m, n), got f64(3,)", {in(3)})},
          .large = large};
}
bool is_lower(std::int64_t at, std::int64_t diagonal) { return at <= diagonal; }
bool is_upper(std::int64_t at, std::int64_t diagonal) { return at >= diagonal; }

}  // namespace

std::vector<OpRow> pad_rows() {
  const auto f = [](std::vector<std::int64_t> padding, PadMode mode) {
    return [=](X x) { return pad(x[0], padding, mode); };
  };
  return {
      pad_row("", {1, 2, 0, 1}, PadMode::constant, 0.5, matrices, {in(6, 8, 33, 40).channels_last()},
              {bad<ShapeError>("expected padding with two numbers per dim for at most 2 dims of f64(2, 3)", {in(2, 3)},
                               f({1}, PadMode::constant)),
               bad<ShapeError>("got 6", {in(2, 3)}, f({1, 1, 1, 1, 1, 1}, PadMode::constant)),
               bad<ShapeError>("nor exceed 2^60, got -2 and -2", {in(2, 3)}, f({-2, -2}, PadMode::constant)),
               bad<ShapeError>("nor exceed 2^60, got 5 and -4", {in(2, 3)}, f({5, -4}, PadMode::constant)),
               bad<DTypeError>("i64 cannot represent the number 0.5, got i64(2, 3)", {in(2, 3).as(DType::i64)})}),
      pad_row("last", {2, 1}, PadMode::constant, 0,
              {{in(3)}, {in(0)}, {in(2, 3)}, {in(2, 0)}, {in(4, 3).transposed()}, {in(2, 3, 2, 4).channels_last()}},
              {in(300, 401)}, {}),
      pad_row("cutting", {-1, 2, 1, -2}, PadMode::constant, -1.5, wide, {in(6, 8, 33, 40)}, {}),
      pad_row("cutting_alone", {-1, -1}, PadMode::constant, 0, wide, {in(300, 401)}, {}),
      pad_row("reflect", {2, 1, 0, 2}, PadMode::reflect, 0, wide, {in(6, 8, 33, 40).channels_last()},
              {bad<ShapeError>("reflect can add fewer elements than dim 1 of f64(2, 3)", {in(2, 3)},
                               f({1, 3}, PadMode::reflect))}),
      pad_row("reflect_cutting", {-1, 2}, PadMode::reflect, 0, wide, {in(300, 401)}, {}),
      pad_row("replicate", {2, 1, 4, 0}, PadMode::replicate, 0, wide, {in(6, 8, 33, 40)},
              {bad<ShapeError>("replicate cannot pad an empty dim, got dim 1 of f64(2, 0)", {in(2, 0)},
                               f({1, 0}, PadMode::replicate))}),
      triangle_row("tril", "", tril, 0, is_lower, {in(300, 401)}),
      triangle_row("tril", "above", tril, 1, is_lower, {in(6, 8, 33, 40).channels_last()}),
      triangle_row("tril", "below", tril, -1, is_lower, {in(12, 60, 90)}),
      triangle_row("tril", "all", tril, std::numeric_limits<std::int64_t>::max(), is_lower, {in(300, 401)}),
      triangle_row("triu", "", triu, 0, is_upper, {in(300, 401)}),
      triangle_row("triu", "above", triu, 1, is_upper, {in(12, 60, 90)}),
      triangle_row("triu", "none", triu, std::numeric_limits<std::int64_t>::max(), is_upper, {in(300, 401)}),
  };
}

}  // namespace bytetape::test
