#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

/// Calls f(element of index, its place in x) in row-major order.
void for_each_place(const Array& index, int dim, const std::function<void(const Dims&, const Dims&)>& f) {
  for_each_index(index.shape, [&](const Dims& at) {
    Dims to = at;
    const int d = dim < 0 ? dim + at.size() : dim;
    to[d] = static_cast<std::int64_t>(index(at));
    f(at, to);
  });
}

/// An index and a source that fits it.
Case with_index(const Input& x, const Input& index, const Input& src) { return {x, index.examples(), src}; }
const Cases along_0{with_index(in(3, 4), in(2, 3), in(2, 3)),
                    with_index(in(4), in(6), in(6)),
                    with_index(in(3, 4), in(5, 4), in(6, 5)),
                    with_index(in(3, 0), in(2, 0), in(2, 0)),
                    with_index(in(3, 4), in(0, 4), in(2, 4)),
                    with_index(in(4, 3).transposed(), in(6, 3).spaced(), in(6, 3).transposed()),
                    with_index(in(3, 4).narrowed(), in(2, 4).narrowed(), in(2, 4).expanded()),
                    with_index(in(3, 2).expanded(), in(4, 2).expanded(), in(5, 2).narrowed()),
                    with_index(in(3, 2, 2, 2).channels_last(), in(4, 2, 1, 2), in(4, 2, 1, 2).channels_last())};
const Cases along_last{with_index(in(2, 3), in(2, 5), in(2, 5)),
                       with_index(in(2, 2, 3), in(1, 2, 4), in(2, 2, 4)),
                       with_index(in(0, 3), in(0, 2), in(0, 2)),
                       with_index(in(4, 3).transposed(), in(4, 2).transposed(), in(4, 2).spaced()),
                       with_index(in(2, 5).narrowed(), in(2, 7).spaced(), in(2, 7)),
                       with_index(in(2, 3, 2, 3).channels_last(), in(2, 3, 2, 4).channels_last(), in(2, 3, 2, 4))};

Cases without_source(Cases cases) {
  for (Case& c : cases) c.pop_back();
  return cases;
}

std::vector<BadInput> bad_indices(int dim) {
  const Input many = dim == 0 ? in(64, 2) : in(2, 64);
  return {bad<DTypeError>("expected indices in i64, got f64(3, 2)", {in(3, 3), in(3, 2), in(3, 2)}),
          bad<DeviceError>("inputs on different devices", {in(3, 3), in(3, 3).examples().elsewhere(), in(3, 3)}),
          bad<ShapeError>("an index with the dims of f64(3, 3) on", {in(3, 3), in(3).examples(), in(3)}),
          bad<ShapeError>("not larger except in dim", {in(3, 3, 3), in(3, 4, 3).examples(), in(3, 4, 3)}),
          needs_data(bad<ValueError>("index 2 is not in [0, 2)", {in(2, 2), many.examples(), many}))};
}
std::vector<BadInput> bad_sources() {
  return {bad<ShapeError>("not larger than src, f64(2, 3) on", {in(3, 3), in(3, 3).examples(), in(2, 3)}),
          bad<ShapeError>("not larger than src, f64(3,) on", {in(3, 3), in(3, 3).examples(), in(3)}),
          bad<DTypeError>("inputs of different dtypes: f64(3,)", {in(3), in(3).examples(), in(3).as(DType::f32)}),
          bad<ValueError>("the second input is an undefined tensor", {in(3), in(3).examples(), undefined})};
}
std::vector<BadInput> bad_overwritten(const Function& f) {
  return {bad<AutogradError>("cannot write into a leaf that requires grad, f64(3,) on",
                             {in(3), in(3).examples(), in(3)}, f),
          bad<ValueError>("whose elements share memory", {in(3, 3).expanded(), in(3, 3).examples(), in(3, 3)}, f)};
}

OpRow gather_row(const std::string& variant, int dim, const Cases& cases, const Case& large) {
  return {.op = "gather",
          .variant = variant,
          .f = [=](X x) { return gather(x[0], dim, x[1]); },
          .reference =
              [=](A x) {
                Array y(x[1].shape);
                for_each_place(x[1], dim, [&](const Dims& at, const Dims& from) { y(at) = x[0](from); });
                return y;
              },
          .cases = without_source(cases),
          .bad = bad_indices(dim),
          .large = large};
}

using Scatter = Tensor (*)(const Tensor&, std::int64_t, const Tensor&, const Operand&);
using ScatterAdd = Tensor (*)(const Tensor&, std::int64_t, const Tensor&, const Tensor&);

/// A row of an op that writes elements. combine(y, src) writes one.
template <class Op>
OpRow scatter_row(const std::string& op, const std::string& variant, Op f, int dim, const Cases& cases,
                  const Case& large, void (*combine)(double&, double)) {
  const bool writes = op.back() == '_';
  const Function direct = [=](X x) { return f(x[0], dim, x[1], x[2]); };
  std::vector<BadInput> bad_inputs = bad_sources();
  if (!writes) bad_inputs = bad_inputs + bad_indices(dim);
  return {.op = op,
          .variant = variant,
          .f = writes ? in_place(direct) : direct,
          .reference =
              [=](A x) {
                Array y = x[0];
                for_each_place(x[1], dim, [&](const Dims& at, const Dims& to) { combine(y(to), x[2](at)); });
                return y;
              },
          .cases = cases,
          .bad = writes ? bad_inputs + bad_overwritten(direct) : bad_inputs,
          .tolerance = 4,
          .large = large};
}

void replace(double& y, double src) { y = src; }
void add_to(double& y, double src) { y += src; }

OpRow scatter_number_row() {
  return {.op = "scatter",
          .variant = "number",
          .f = [](X x) { return scatter(x[0], -1, x[1], 2); },
          .reference =
              [](A x) {
                Array y = x[0];
                for_each_place(x[1], -1, [&](const Dims&, const Dims& to) { y(to) = 2; });
                return y;
              },
          .cases = without_source(along_last),
          .bad = {bad<DTypeError>("i64 cannot represent the number 0.5", {in(3).as(DType::i64), in(2).examples()},
                                  [](X x) { return scatter(x[0], 0, x[1], 0.5); })},
          .large = {in(300, 401), in(300, 60).examples()}};
}

}  // namespace

std::vector<OpRow> gather_rows() {
  const Case tall = with_index(in(300, 401), in(500, 300), in(500, 300)),
             few = with_index(in(900, 70), in(20, 70), in(20, 70)),
             one_line = with_index(in(5000), in(100000), in(100000));
  const Scatter put = scatter, put_ = scatter_;
  const ScatterAdd add = scatter_add, add_ = scatter_add_;
  return {gather_row("", 0, along_0, {in(300, 401), in(500, 300).examples()}),
          gather_row("last", -1, along_last, {in(300, 401), in(300, 333).examples()}),
          scatter_row("scatter", "", put, 0, along_0, tall, replace),
          scatter_row("scatter", "last", put, -1, along_last, one_line, replace),
          scatter_number_row(),
          scatter_row("scatter_", "", put_, 0, along_0, tall, replace),
          scatter_row("scatter_add", "", add, 0, along_0, tall, add_to),
          scatter_row("scatter_add", "few", add, 0, along_0, few, add_to),
          scatter_row("scatter_add", "last", add, -1, along_last, one_line, add_to),
          scatter_row("scatter_add_", "", add_, 0, along_0, tall, add_to)};
}

}  // namespace bytetape::test
