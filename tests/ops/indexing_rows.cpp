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

using WriteSlices = Tensor (*)(const Tensor&, std::int64_t, const Tensor&, const Tensor&);

/// A row of an op that writes slices. combine(y, src) writes an element.
OpRow write_row(const std::string& op, const std::string& variant, WriteSlices f, int dim, const Cases& cases,
                const Case& large, void (*combine)(double&, double)) {
  const bool writes = op.back() == '_';
  const Function direct = [=](X x) { return f(x[0], dim, x[1], x[2]); };
  std::vector<BadInput> bads{
      bad<DTypeError>("expected indices in i64, got f64(4,)", {in(3, 3), in(4), in(4, 3)}),
      bad<ShapeError>("expected an index of rank 1, got i64(2, 2)", {in(3, 3), in(2, 2).examples(), in(2, 3)}),
      bad<ShapeError>("a scalar has no dim to select from", {in(), in(2).examples(), in(2)}),
      bad<ShapeError>("expected src of shape (4,), for f64(3,)", {in(3), in(4).examples(), in(3)}),
      bad<DTypeError>("inputs of different dtypes: f64(3,)", {in(3), in(4).examples(), in(4).as(DType::f32)}),
      bad<ValueError>("the second input is an undefined tensor", {in(3), in(4).examples(), undefined})};
  if (writes)
    bads = bads + std::vector{bad<AutogradError>("cannot write into a leaf that requires grad, f64(3,) on",
                                                 {in(3), in(4).examples(), in(4)}, direct),
                              bad<ValueError>("whose elements share memory",
                                              {in(3, 3, 3).expanded(), in(3).examples(), in(3, 3, 3)}, direct)};
  else
    bads.push_back(needs_data(bad<ValueError>("index 2 is not in [0, 2)", {in(2), in(64).examples(), in(64)})));
  return {.op = op,
          .variant = variant,
          .f = writes ? in_place(direct) : direct,
          .reference =
              [=](A x) {
                Array y = x[0];
                for_each_index(x[2].shape, [&](const Dims& at) {
                  Dims to = at;
                  const int d = dim < 0 ? dim + at.size() : dim;
                  to[d] = static_cast<std::int64_t>(x[1]({at[d]}));
                  combine(y(to), x[2](at));
                });
                return y;
              },
          .cases = cases,
          .bad = bads,
          .tolerance = 4,
          .large = large};
}

void replace(double& y, double src) { y = src; }
void add_to(double& y, double src) { y += src; }

OpRow embedding_row() {
  return {
      .op = "embedding",
      .f = [](X x) { return embedding(x[0], x[1]); },
      .reference =
          [](A x) {
            Shape shape = x[0].shape;
            shape.push_back(x[1].size(1));
            Array y(shape);
            for_each_index(shape, [&](const Dims& at) {
              Dims place = at;
              place.erase(at.size() - 1);
              y(at) = x[1]({static_cast<std::int64_t>(x[0](place)), at.back()});
            });
            return y;
          },
      .cases = {{in(5).examples(), in(3, 4)},
                {in().examples(), in(3, 4)},
                {in(2, 3).examples(), in(4, 2).transposed()},
                {in(0, 3).examples(), in(3, 2)},
                {in(2).examples(), in(3, 0)},
                {in(3, 4).examples().transposed(), in(3, 4).narrowed()},
                {in(2, 3, 2).examples().spaced(), in(3, 5).expanded()}},
      .bad = {bad<DTypeError>("expected indices in i64, got f64(4,)", {in(4), in(3, 3)}),
              bad<ShapeError>("expected a weight (n, d), got f64(3,)", {in(4).examples(), in(3)}),
              bad<DeviceError>("inputs on different devices", {in(4).examples(), in(3, 3).elsewhere()}),
              bad<ValueError>("padding_idx 3 is out of range for the weight f64(3, 2)", {in(4).examples(), in(3, 2)},
                              [](X x) { return embedding(x[0], x[1], {.padding_idx = 3}); }),
              bad<ValueError>("padding_idx -4 is out of range for the weight f64(3, 2)", {in(4).examples(), in(3, 2)},
                              [](X x) { return embedding(x[0], x[1], {.padding_idx = -4}); }),
              needs_data(bad<ValueError>("index 2 is not in [0, 2)", {in(64).examples(), in(2, 2)}))},
      .tolerance = 4,
      .large = {in(40, 30).examples(), in(300, 129)}};
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
  const Cases first{{in(3), in(4).examples(), in(4)},
                    {in(3, 4), in(5).examples(), in(5, 4)},
                    {in(3, 0), in(2).examples(), in(2, 0)},
                    {in(3, 4), in(0).examples(), in(0, 4)},
                    {in(4, 3).transposed(), in(6).examples(), in(6, 3).spaced()},
                    {in(3, 4).expanded(), in(2).examples().spaced(), in(2, 4).expanded()},
                    {in(3, 2, 2, 2).channels_last(), in(5).examples(), in(5, 2, 2, 2)},
                    {in(5, 3).narrowed(), in(1).examples(), in(1, 3).transposed()}},
      last{{in(2, 3), in(5).examples(), in(2, 5)},
           {in(0, 3), in(2).examples(), in(0, 2)},
           {in(4, 3).transposed(), in(6).examples(), in(4, 6).transposed()},
           {in(2, 5).narrowed(), in(2).examples(), in(2, 2).narrowed()},
           {in(3, 3).expanded(), in(4).examples(), in(3, 4).expanded()},
           {in(2, 3, 2, 3).channels_last(), in(5).examples(), in(2, 3, 2, 5).channels_last()}};
  const Case many{in(300, 129), in(900).examples(), in(900, 129)}, wide{in(129, 300), in(333).examples(), in(129, 333)};
  return {
      embedding_row(),
      write_row("index_add", "", index_add, 0, first, many, add_to),
      write_row("index_add", "last", index_add, -1, last, wide, add_to),
      write_row("index_add_", "", index_add_, 0, first, many, add_to),
      write_row("index_copy", "", index_copy, 0, first, many, replace),
      write_row("index_copy", "last", index_copy, -1, last, wide, replace),
      write_row("index_copy_", "", index_copy_, 0, first, many, replace),
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
