#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

OpRow cumsum_row(const std::string& variant, int dim, const Cases& cases, const Case& large = {}) {
  return {.op = "cumsum",
          .variant = variant,
          .f = [dim](X x) { return cumsum(x[0], dim); },
          .reference =
              [dim](A x) {
                Array y = x[0];
                const int d = dim < 0 ? dim + y.shape.size() : dim;
                for_each_index(y.shape, [&](const Dims& at) {
                  if (at.empty() || at[d] == 0) return;
                  Dims before = at;
                  --before[d];
                  y(at) += y(before);
                });
                return y;
              },
          .cases = cases,
          .bad = {out_of_range([](X x) { return cumsum(x[0], 2); }),
                  bad<ShapeError>("dim 1 is out of range for shape ()", {in()}, [](X x) { return cumsum(x[0], 1); })},
          .large = large};
}

OpRow integer_row() {
  OpRow row = cumsum_row("integers", -1,
                         {{in().examples()},
                          {in(9).pixels()},
                          {in(2, 300).pixels()},
                          {in(2, 5).examples().as(DType::i32)},
                          {in(3, 4).boolean().transposed()},
                          {in(0, 3).examples()},
                          {in(6).examples().spaced()}},
                         {in(300, 401).pixels()});
  row.gradients = Gradients::none;
  return row;
}

}  // namespace

std::vector<OpRow> scan_rows() {
  return {
      cumsum_row("", 0, one),
      cumsum_row("last", -1, one, {in(3, 9000)}),
      cumsum_row("middle", 1, matrices, {in(3, 700, 70)}),
      integer_row(),
  };
}

}  // namespace bytetape::test
