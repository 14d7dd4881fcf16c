#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

OpRow select_row(const std::string& variant, int dim, const Cases& cases, const Case& large) {
  const auto at_dim = [dim](const Shape& s) { return dim < 0 ? dim + s.size() : dim; };
  return {.op = "index_select",
          .variant = variant,
          .f = [=](X x) { return index_select(x[0], dim, x[1]); },
          .reference =
              [=](A x) {
                Shape shape = x[0].shape;
                const int d = at_dim(shape);
                shape[d] = x[1].size(0);
                Array y(shape);
                for_each_index(shape, [&](const Dims& at) {
                  Dims from = at;
                  from[d] = static_cast<std::int64_t>(x[1]({at[d]}));
                  y(at) = x[0](from);
                });
                return y;
              },
          .cases = cases,
          .bad = {bad<DTypeError>("expected indices in i64, got f64(4,)", {in(3, 3), in(4)}),
                  bad<ShapeError>("expected an index of rank 1, got i64(2, 2)", {in(3, 3), in(2, 2).examples()}),
                  bad<ShapeError>("a scalar has no dim to select from", {in(), in(2).examples()}),
                  bad<DeviceError>("inputs on different devices", {in(3, 3), in(4).examples().elsewhere()}),
                  bad<ShapeError>("dim 2 is out of range for shape (3, 3)", {in(3, 3), in(2).examples()},
                                  [](X x) { return index_select(x[0], 2, x[1]); }),
                  needs_data(bad<ValueError>("index 2 is not in [0, 2)", {in(2, 2), in(64).examples()}))},
          .large = large};
}

OpRow hot_row() {
  return {.op = "one_hot",
          .f = [](X x) { return one_hot(x[0], 3); },
          .reference =
              [](A x) {
                Shape shape = x[0].shape;
                shape.push_back(3);
                Array y(shape);
                for_each_index(x[0].shape, [&](const Dims& at) {
                  Dims to = at;
                  to.push_back(static_cast<std::int64_t>(x[0](at)));
                  y(to) = 1;
                });
                return y;
              },
          .cases = {{in().examples()},
                    {in(5).examples()},
                    {in(2, 4).examples()},
                    {in(0, 3).examples()},
                    {in(4, 3).examples().transposed()},
                    {in(2, 5).examples().narrowed()},
                    {in(6).examples().spaced()}},
          .bad = {bad<DTypeError>("expected indices in i64, got f64(4,)", {in(4)}),
                  bad<ValueError>("num_classes must be positive, got 0", {in(4).examples()},
                                  [](X x) { return one_hot(x[0], 0); }),
                  needs_data(bad<ValueError>("index 2 is not in [0, 2)", {in(64).examples()},
                                             [](X x) { return one_hot(x[0], 2); }))},
          .gradients = Gradients::none,
          .large = {in(50000).examples()}};
}

}  // namespace

std::vector<OpRow> indexing_rows() {
  return {
      select_row("", 0,
                 {{in(3), in(4).examples()},
                  {in(3, 4), in(5).examples()},
                  {in(3, 0), in(2).examples()},
                  {in(3, 4), in(0).examples()},
                  {in(4, 3).transposed(), in(6).examples()},
                  {in(3, 4).expanded(), in(2).examples().spaced()},
                  {in(3, 2, 2, 2).channels_last(), in(5).examples()},
                  {in(5, 3).narrowed(), in(1).examples()}},
                 {in(300, 400), in(900).examples()}),
      select_row("last", -1,
                 {{in(3), in(4).examples()},
                  {in(2, 3), in(5).examples()},
                  {in(0, 3), in(2).examples()},
                  {in(4, 3).transposed(), in(6).examples().spaced()},
                  {in(2, 5).narrowed(), in(2).examples()},
                  {in(3, 3).expanded(), in(4).examples()},
                  {in(2, 3, 2, 3).channels_last(), in(5).examples()}},
                 {in(300, 401), in(333).examples()}),
      select_row("channels", 1,
                 {{in(2, 3), in(4).examples()},
                  {in(2, 3, 4), in(5).examples()},
                  {in(0, 3, 2), in(2).examples()},
                  {in(2, 4, 3).transposed(), in(6).examples()},
                  {in(2, 3, 2, 3).channels_last(), in(5).examples()},
                  {in(2, 3, 2, 3).narrowed(), in(2).examples()}},
                 {in(30, 8, 20, 24), in(33).examples()}),
      hot_row(),
  };
}

}  // namespace bytetape::test
