#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

constexpr std::int64_t whole = -1;

/// The places along dim of the first k elements of each row in order, or their values.
Array ranked(const Array& x, int dim, std::int64_t k, bool descending, bool places) {
  const int d = dim < 0 ? dim + x.shape.size() : dim;
  Array y(x.shape);
  if (x.shape.empty()) return places ? y : x;
  const std::int64_t n = x.shape[d];
  if (k != whole)
    y = Array([&] {
      Shape s = x.shape;
      s[d] = k;
      return s;
    }());
  for_each_index(y.shape, [&](const Dims& at) {
    if (at[d] > 0) return;
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    Dims from = at, to = at;
    const auto value = [&](std::int64_t i) { return from[d] = i, x(from); };
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return descending ? value(a) > value(b) : value(a) < value(b);
    });
    for (std::int64_t i = 0; i < y.shape[d]; ++i) {
      const std::int64_t place = order[static_cast<std::size_t>(i)];
      to[d] = i;
      y(to) = places ? static_cast<double>(place) : value(place);
    }
  });
  return y;
}

OpRow sort_row(const std::string& variant, int dim, bool descending, const Cases& cases, const Case& large = {}) {
  return {
      .op = "sort",
      .variant = variant,
      .f = [=](X x) { return sort(x[0], dim, descending).values; },
      .reference = [=](A x) { return ranked(x[0], dim, whole, descending, false); },
      .cases = cases,
      .draw = Draw::distinct,
      .bad = {out_of_range([](X x) { return sort(x[0], 2).values; }),
              bad<ShapeError>("dim 1 is out of range for shape ()", {in()}, [](X x) { return sort(x[0], 1).values; })},
      .large = large};
}

OpRow indices_row(const std::string& op, const std::string& variant, const Function& f, int dim, bool descending,
                  const Cases& cases, const Case& large) {
  return {.op = op,
          .variant = variant,
          .f = f,
          .reference = [=](A x) { return ranked(x[0], dim, whole, descending, true); },
          .cases = cases,
          .draw = Draw::distinct,
          .bad = {out_of_range([](X x) { return argsort(x[0], 2); })},
          .gradients = Gradients::none,
          .large = large};
}

OpRow topk_row(const std::string& variant, std::int64_t k, int dim, bool largest, const Cases& cases,
               const Case& large) {
  const auto too_many = [](std::int64_t k) { return [k](X x) { return topk(x[0], k).values; }; };
  return {.op = "topk",
          .variant = variant,
          .f = [=](X x) { return topk(x[0], k, dim, largest).values; },
          .reference = [=](A x) { return ranked(x[0], dim, k, largest, false); },
          .cases = cases,
          .draw = Draw::distinct,
          .bad = {out_of_range([](X x) { return topk(x[0], 1, 2).values; }),
                  bad<ValueError>("k must be from 0 to 3, the size of dim -1 of f64(2, 3)", {in(2, 3)}, too_many(4)),
                  bad<ValueError>("got -1", {in(2, 3)}, too_many(-1)),
                  bad<ValueError>("k must be from 1 to 1", {in()}, too_many(0))},
          .large = large};
}

/// Many equal elements, of which the first comes first.
const Cases with_ties{{in().examples()},
                      {in(9).examples()},
                      {in(2, 300).pixels()},
                      {in(2, 5).examples().as(DType::i32)},
                      {in(3, 4).boolean().transposed()},
                      {in(0, 3).examples()},
                      {in(6).examples().spaced()}};

}  // namespace

std::vector<OpRow> sort_rows() {
  OpRow integers = sort_row("integers", -1, false, with_ties, {in(300, 401).pixels()});
  integers.gradients = Gradients::none;
  return {
      sort_row("", -1, false, one, {in(40, 5000)}),
      sort_row("descending", 0, true, one, {in(9, 3000)}),
      sort_row("middle", 1, false, matrices, {in(3, 700, 70)}),
      integers,
      indices_row("sort", "indices", [](X x) { return sort(x[0], -1, true).indices; }, -1, true, with_ties,
                  {in(3, 40'000).pixels()}),
      indices_row("argsort", "", [](X x) { return argsort(x[0]); }, -1, false, one, {in(300, 401)}),
      indices_row("argsort", "ties", [](X x) { return argsort(x[0], 0, true); }, 0, true, with_ties,
                  {in(40'000, 3).pixels()}),
      topk_row("", 2, -1, true,
               {{in(7)},
                {in(2)},
                {in(0, 3)},
                {in(2, 3, 4)},
                {in(4, 3).transposed()},
                {in(2, 5).narrowed()},
                {in(3, 4).expanded()},
                {in(6).spaced()},
                {in(2, 3, 2, 2).channels_last()}},
               {in(5, 20'000)}),
      topk_row("smallest", 3, 0, false,
               {{in(3)}, {in(7)}, {in(5, 0)}, {in(4, 3).transposed()}, {in(3, 4).expanded()}, {in(6, 2).spaced()}},
               {in(9000, 5)}),
      topk_row("none", 0, 0, true,
               {{in(3)}, {in(0, 2)}, {in(2, 3)}, {in(4, 3).transposed()}, {in(6).spaced()}, {in(1)}}, {in(3, 9000)}),
      topk_row("one", 1, -1, true, one, {in(9, 5000)}),
  };
}

}  // namespace bytetape::test
