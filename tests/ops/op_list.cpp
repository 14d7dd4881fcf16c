#include "tests/ops/op_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/reference.h"

namespace bytetape::test {
namespace {

namespace ref = reference;
using X = const Inputs&;
using A = const Arrays&;

// ---- how ops of one kind are called

Function of(Tensor (*f)(const Tensor&)) {
  return [f](X x) { return f(x[0]); };
}
Function of(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](X x) { return f(x[0], x[1]); };
}
Tensor copy_of(const Tensor& x) { return x.defined() ? clone(x) : x; }
/// Into a copy of the first input.
Function in_place(Tensor& (*f)(Tensor&)) {
  return [f](X x) {
    Tensor y = copy_of(x[0]);
    return f(y);
  };
}
Function in_place(Tensor& (*f)(Tensor&, const Tensor&)) {
  return [f](X x) {
    Tensor y = copy_of(x[0]);
    return f(y, x[1]);
  };
}
Function in_place(Tensor& (*f)(Tensor&, Scalar), Scalar s) {
  return [f, s](X x) {
    Tensor y = copy_of(x[0]);
    return f(y, s);
  };
}

// ---- shapes

const Cases one{{in()},
                {in(7)},
                {in(0, 3)},
                {in(2, 3, 4)},
                {in(4, 3).transposed()},
                {in(2, 5).narrowed()},
                {in(3, 4).expanded()},
                {in(6).spaced()},
                {in(2, 3, 2, 2).channels_last()}};
const Cases two{{in(), in()},
                {in(3, 4), in(3, 4)},
                {in(3, 4), in(4)},
                {in(3, 1), in(1, 4)},
                {in(), in(2, 1, 3)},
                {in(0, 3), in(3)},
                {in(4, 3).transposed(), in(4, 3)},
                {in(3, 4).expanded(), in(3, 4).narrowed()},
                {in(2, 3, 2, 2).channels_last(), in(3, 1, 1)},
                {in(5).spaced(), in(2, 1)}};
const Cases into_first{{in(), in()},
                       {in(3, 4), in(3, 4)},
                       {in(3, 4), in(4)},
                       {in(2, 3, 4), in(3, 1)},
                       {in(0, 3), in(3)},
                       {in(4, 3).transposed(), in(4, 3).spaced()},
                       {in(2, 3, 2, 2).channels_last(), in(3, 1, 1)},
                       {in(3, 4).narrowed(), in(3, 4).expanded()}};
const Cases some{{in()},  // where every element counts: nothing of size zero
                 {in(5)},
                 {in(3, 4)},
                 {in(2, 3, 4)},
                 {in(4, 3).transposed()},
                 {in(3, 5).narrowed()},
                 {in(4, 3).expanded()},
                 {in(2, 3, 2, 4).channels_last()}};
Cases operator+(Cases cases, const Case& more) {
  cases.push_back(more);
  return cases;
}
const Cases matrices{{in(2, 3)},
                     {in(1, 4)},
                     {in(0, 3)},
                     {in(2, 3, 4)},
                     {in(4, 3).transposed()},
                     {in(2, 5).narrowed()},
                     {in(3, 4).expanded()},
                     {in(3, 3).spaced()},
                     {in(2, 3, 2, 3).channels_last()}};
const Cases images{{in(1, 1, 4, 4)},
                   {in(2, 3, 5, 4)},
                   {in(0, 2, 4, 4)},
                   {in(2, 3, 4, 6).channels_last()},
                   {in(2, 2, 4, 5).transposed()},
                   {in(1, 2, 6, 4).narrowed()},
                   {in(2, 2, 4, 4).expanded()}};
const Case large_one{in(300, 401)}, large_two{in(300, 401), in(401)};

// ---- bad inputs

const BadInput integers = bad<DTypeError>("expected a floating dtype, got i64(3,)", {in(3).as(DType::i64)});
const BadInput bools = bad<DTypeError>("expected numbers, got bool(3,)", {in(3).boolean()});
const std::vector<BadInput> bad_with_number{bools,
                                            bad<DTypeError>("the number 1.5 is no i64", {in(3).as(DType::i64)}, {})};
const BadInput one_bool = bad<DTypeError>("expected numbers, got bool(3,)", {in(3).boolean(), in(3)});
const BadInput two_dtypes = bad<DTypeError>("inputs of different dtypes: f64(3,)", {in(3), in(3).as(DType::f32)});
const BadInput two_devices = bad<DeviceError>("inputs on different devices", {in(3), in(3).elsewhere()});
const BadInput no_second = bad<ValueError>("the second input is an undefined tensor", {in(3), undefined});
const BadInput no_broadcast = bad<ShapeError>("shapes (2, 3) and (2,) do not broadcast", {in(2, 3), in(2)});
const std::vector<BadInput> bad_pairs{one_bool, two_dtypes, two_devices, no_second, no_broadcast};
const std::vector<BadInput> bad_pairs_in_place{
    one_bool,  two_dtypes,   two_devices,
    no_second, no_broadcast, bad<ShapeError>("the result does not fit into f64(3,)", {in(3), in(2, 3)})};
const std::vector<BadInput> bad_comparison{two_dtypes, two_devices, no_second, no_broadcast};
BadInput out_of_range(const Function& f) { return bad<ShapeError>("dim 2 is out of range for 2 dim", {in(2, 3)}, f); }

// ---- references

using Values = const std::vector<double>&;
double total(Values v) { return std::accumulate(v.begin(), v.end(), 0.0); }
double average(Values v) { return total(v) / static_cast<double>(v.size()); }
double squares(Values v) {
  double sum = 0;
  for (const double e : v) sum += (e - average(v)) * (e - average(v));
  return sum;
}
double variance(Values v) { return squares(v) / static_cast<double>(v.size()); }
double unbiased(Values v) { return squares(v) / std::max(0.0, static_cast<double>(v.size()) - 1); }
double highest(Values v) { return *std::max_element(v.begin(), v.end()); }
double lowest(Values v) { return *std::min_element(v.begin(), v.end()); }
double place_of_highest(Values v) { return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin()); }
double gelu_of(double v) { return v * 0.5 * std::erfc(-v * std::numbers::sqrt2 / 2); }
double sigmoid_of(double v) { return 1 / (1 + std::exp(-v)); }
double sign_of(double v) { return (v > 0) - (v < 0); }
double same(double v) { return v; }
Shape flat(const Shape& s) { return {numel(s)}; }
Shape swapped(const Shape& s) {
  Shape t = s;
  if (!t.empty()) std::swap(t[0], t[t.size() - 1]);
  return t;
}
Shape reversed(const Shape& s) {
  Shape t = s;
  std::reverse(t.begin(), t.end());
  return t;
}
Array exponential(Array x) {
  for (double& v : x.values) v = std::exp(v);
  return x;
}
const Array* if_any(A x, std::size_t i) { return i < x.size() ? &x[i] : nullptr; }
Tensor if_any(X x, std::size_t i) { return i < x.size() ? x[i] : Tensor(); }

// ---- ops with parameters

Conv2dParams geometry(std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
  return {{stride, stride}, {padding, padding}, {dilation, dilation}, groups};
}
/// Channels of the inputs: `groups` of 2; of the outputs: `groups` of 3.
OpRow conv_row(const std::string& variant, const Conv2dParams& p, std::int64_t k = 3, bool has_bias = true) {
  const std::int64_t c = 2 * p.groups, o = 3 * p.groups;
  const Input w = in(o, 2, k, k), b = in(o);
  Cases cases{{in(1, c, 5, 5), w, b},
              {in(2, c, 7, 5), w, b},
              {in(0, c, 5, 5), w, b},
              {in(2, c, 5, 6).channels_last(), w.channels_last(), b},
              {in(2, c, 5, 5).transposed(), w.transposed(), b.spaced()},
              {in(2, c, 6, 5).expanded(), w.narrowed(), b.narrowed()},
              {in(1, c, 8, 5).narrowed(), w.spaced(), b.expanded()}};
  Case large{in(4, 8 * c, 24, 24), in(4 * o, 16, k, k), in(4 * o)};
  std::vector<BadInput> bads{bad<ShapeError>("and weight f64(4, 7, 3, 3)", {in(2, 3, 9, 9), in(4, 7, 3, 3), in(4)}),
                             bad<ShapeError>("expected x (n, c, h, w) and a weight", {in(c, 5, 5), w, b}),
                             bad<ShapeError>("only the batch can be empty", {in(2, c, 0, 5), w, b}),
                             bad<ShapeError>("the kernel of f64", {in(2, c, 9, 9), in(o, 2, 20, 3), b}),
                             bad<DTypeError>("different dtypes", {in(2, c, 9, 9), w.as(DType::f32), b}),
                             bad<DTypeError>("floating", {in(2, c, 9, 9).as(DType::i64), w.as(DType::i64), b}),
                             bad<DeviceError>("different devices", {in(2, c, 9, 9), w.elsewhere(), b}),
                             bad<ValueError>("stride and dilation must be at least 1", {in(2, c, 9, 9), w, b},
                                             [](X x) {
                                               return conv2d(x[0], x[1], x[2], {.stride = {0, 1}});
                                             }),
                             bad<ValueError>("groups must be at least 1", {in(2, c, 9, 9), w, b},
                                             [](X x) { return conv2d(x[0], x[1], x[2], {.groups = 0}); })};
  if (has_bias) {
    bads.push_back(bad<ShapeError>("expected a bias", {in(2, c, 9, 9), w, in(o + 1)}));
    bads.push_back(bad<DTypeError>("different dtypes", {in(2, c, 9, 9), w, b.as(DType::f32)}));
  } else {
    for (Case& inputs : cases) inputs.pop_back();
    large.pop_back();
  }
  return {"conv2d",
          variant,
          [=](X x) { return conv2d(x[0], x[1], if_any(x, 2), p); },
          [=](A x) { return ref::conv2d(x[0], x[1], if_any(x, 2), p); },
          cases,
          Draw::normal,
          bads,
          Gradients::twice,
          4,
          true,
          large};
}
OpRow pool_row(const std::string& variant, const Pool2dParams& p) {
  return {"max_pool2d",
          variant,
          [p](X x) { return max_pool2d(x[0], p); },
          [p](A x) { return ref::max_pool2d(x[0], p); },
          images,
          Draw::distinct,
          {bad<DTypeError>("floating", {in(1, 1, 4, 4).as(DType::i64)}),
           bad<ShapeError>("expected x (n, c, h, w), got f64(4, 4)", {in(4, 4)}),
           bad<ShapeError>("does not fit into f64(1, 1, 1, 0)", {in(1, 1, 1, 0)}),
           bad<ValueError>("padding must be between 0 and half the kernel", {in(1, 1, 4, 4)},
                           [](X x) {
                             return max_pool2d(x[0], {{2, 2}, {2, 2}, {2, 2}});
                           }),
           bad<ValueError>("stride", {in(1, 1, 4, 4)},
                           [](X x) {
                             return max_pool2d(x[0], {{2, 2}, {0, 2}, {0, 0}});
                           })},
          Gradients::twice,
          1,
          true,
          {in(4, 8, 48, 48)}};
}
OpRow norm_row(const std::string& variant, bool training, const Cases& cases, std::vector<BadInput> bads) {
  const auto constant = [](const Tensor& x, double v) { return full({x.size(1)}, v, x.dtype(), x.device()); };
  Function f = [=](X x) {
    if (training || !x[0].defined()) return batch_norm(x[0], if_any(x, 1), if_any(x, 2), {}, {}, training);
    return batch_norm(x[0], if_any(x, 1), if_any(x, 2), constant(x[0], 0.25), constant(x[0], 1.5), false);
  };
  Reference reference = [=](A x) {
    static const double mean = 0.25, var = 1.5;
    return ref::batch_norm(x[0], if_any(x, 1), if_any(x, 2), training ? nullptr : &mean, training ? nullptr : &var,
                           1e-5);
  };
  bads.push_back(bad<DTypeError>("floating", {in(4, 3).as(DType::i64), in(3), in(3)}));
  bads.push_back(bad<ShapeError>("expected x (n, c) or (n, c, h, w), got f64(3,)", {in(3), in(3), in(3)},
                                 [](X x) { return batch_norm(x[0], x[1], x[2], {}, {}, true); }));
  const Case large = cases[0].size() == 1 ? Case{in(8, 16, 40, 40)} : Case{in(8, 16, 40, 40), in(16), in(16)};
  return {"batch_norm", variant, f, reference, cases, Draw::normal, bads, Gradients::once, 3, true, large};
}
OpRow loss_row(const std::string& variant, const CrossEntropyOptions& options) {
  Cases cases{{in(1, 3), in(1).classes()},
              {in(5, 4), in(5).classes()},
              {in(4, 3).transposed(), in(4).classes()},
              {in(3, 5).narrowed(), in(3).classes()},
              {in(4, 3).expanded(), in(4).classes().spaced()},
              {in(6, 3).spaced(), in(6).classes()},
              {in(0, 3), in(0).classes()}};
  return {"cross_entropy",
          variant,
          [=](X x) { return cross_entropy(x[0], x[1], options); },
          [=](A x) { return ref::cross_entropy(x[0], x[1], options); },
          cases,
          Draw::normal,
          {bad<DTypeError>("class indices (i64), got f64(4,)", {in(4, 3), in(4)}),
           bad<ShapeError>("expected logits (n, c) and target (n)", {in(4, 3), in(5).classes()}),
           bad<DTypeError>("floating", {in(4, 3).as(DType::i64), in(4).classes()}),
           bad<DeviceError>("different devices", {in(4, 3), in(4).classes().elsewhere()}),
           needs_data(bad<ValueError>("is not in [0, 1)", {in(64, 1), in(64).classes()}))},
          Gradients::once,
          1,
          true,
          {in(700, 200), in(700).classes()}};
}
OpRow in_place_of(const std::string& op, Tensor& (*f)(Tensor&), double (*expected)(double), Draw draw) {
  const bool any_number = op == "abs_" || op == "neg_";
  return {op, "",   in_place(f), each(expected), one, draw, {any_number ? bools : integers}, Gradients::twice,
          1,  true, large_one};
}
OpRow comparison(const std::string& op, Tensor (*f)(const Tensor&, const Tensor&), double (*expected)(double, double)) {
  return {op, "", of(f), each(expected), two, Draw::distinct, bad_comparison, Gradients::none, 1, true, large_two};
}
OpRow comparison(const std::string& op, Tensor (*f)(const Tensor&, Scalar), double (*expected)(double)) {
  return {
      op,   "scalar", [f](X x) { return f(x[0], 0.25); }, each(expected), one, Draw::distinct, {}, Gradients::none, 1,
      true, large_one};
}

std::vector<OpRow> rows() {
  return {
      // ---- arithmetic
      {.op = "add",
       .f = of(add),
       .reference = each([](double a, double b) { return a + b; }),
       .cases = two,
       .bad = bad_pairs,
       .large = large_two},
      {.op = "add",
       .variant = "scalar",
       .f = [](X x) { return x[0] + 1.5; },
       .reference = each([](double v) { return v + 1.5; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "sub",
       .f = of(sub),
       .reference = each([](double a, double b) { return a - b; }),
       .cases = two,
       .bad = bad_pairs,
       .large = large_two},
      {.op = "sub",
       .variant = "scalar",
       .f = [](X x) { return x[0] - 1.5; },
       .reference = each([](double v) { return v - 1.5; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "sub",
       .variant = "from_scalar",
       .f = [](X x) { return 1.5 - x[0]; },
       .reference = each([](double v) { return 1.5 - v; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "mul",
       .f = of(mul),
       .reference = each([](double a, double b) { return a * b; }),
       .cases = two,
       .bad = bad_pairs,
       .large = large_two},
      {.op = "mul",
       .variant = "scalar",
       .f = [](X x) { return x[0] * -1.5; },
       .reference = each([](double v) { return v * -1.5; }),
       .cases = one,
       .bad = {bools},
       .large = large_one},
      {.op = "mul",
       .variant = "with_itself",
       .f = [](X x) { return x[0] * x[0]; },
       .reference = each([](double v) { return v * v; }),
       .cases = one,
       .bad = {bools},
       .large = large_one},
      {.op = "div",
       .f = of(div),
       .reference = each([](double a, double b) { return a / b; }),
       .cases = two,
       .draw = Draw::positive,
       .bad = bad_pairs,
       .large = large_two},
      {.op = "div",
       .variant = "scalar",
       .f = [](X x) { return x[0] / 1.5; },
       .reference = each([](double v) { return v / 1.5; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "div",
       .variant = "of_scalar",
       .f = [](X x) { return 1.5 / x[0]; },
       .reference = each([](double v) { return 1.5 / v; }),
       .cases = one,
       .draw = Draw::positive,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "pow",
       .f = of(pow),
       .reference = each(std::pow),
       .cases = two,
       .draw = Draw::positive,
       .bad = bad_pairs,
       .large = large_two},
      {.op = "pow",
       .variant = "cube",
       .f = [](X x) { return pow(x[0], 3); },
       .reference = each([](double v) { return v * v * v; }),
       .cases = one,
       .bad = {bools},
       .large = large_one},
      {.op = "pow",
       .variant = "root",
       .f = [](X x) { return pow(x[0], 0.5); },
       .reference = each(std::sqrt),
       .cases = one,
       .draw = Draw::positive,
       .bad = {bools},
       .large = large_one},
      {.op = "pow",
       .variant = "zero",
       .f = [](X x) { return pow(x[0], 0); },
       .reference = each([](double) { return 1.0; }),
       .cases = one,
       .bad = {bools},
       .large = large_one},
      {.op = "neg",
       .f = of(neg),
       .reference = each([](double v) { return -v; }),
       .cases = one,
       .bad = {bools},
       .large = large_one},
      {.op = "add_",
       .f = in_place(add_),
       .reference = each([](double a, double b) { return a + b; }),
       .cases = into_first,
       .bad = bad_pairs_in_place,
       .large = large_two},
      {.op = "add_",
       .variant = "scalar",
       .f = in_place(add_, 1.5),
       .reference = each([](double v) { return v + 1.5; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "sub_",
       .f = in_place(sub_),
       .reference = each([](double a, double b) { return a - b; }),
       .cases = into_first,
       .bad = bad_pairs_in_place,
       .large = large_two},
      {.op = "sub_",
       .variant = "scalar",
       .f = in_place(sub_, 1.5),
       .reference = each([](double v) { return v - 1.5; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "mul_",
       .f = in_place(mul_),
       .reference = each([](double a, double b) { return a * b; }),
       .cases = into_first,
       .bad = bad_pairs_in_place,
       .large = large_two},
      {.op = "mul_",
       .variant = "scalar",
       .f = in_place(mul_, 1.5),
       .reference = each([](double v) { return v * 1.5; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "div_",
       .f = in_place(div_),
       .reference = each([](double a, double b) { return a / b; }),
       .cases = into_first,
       .draw = Draw::positive,
       .bad = bad_pairs_in_place,
       .large = large_two},
      {.op = "div_",
       .variant = "scalar",
       .f = in_place(div_, 1.5),
       .reference = each([](double v) { return v / 1.5; }),
       .cases = one,
       .bad = bad_with_number,
       .large = large_one},
      {.op = "pow_",
       .f = in_place(pow_, 3),
       .reference = each([](double v) { return v * v * v; }),
       .cases = one,
       .bad = {bools},
       .large = large_one},
      in_place_of(
          "neg_", neg_, [](double v) { return -v; }, Draw::normal),

      // ---- pointwise
      {.op = "exp", .f = of(exp), .reference = each(std::exp), .cases = one, .bad = {integers}, .large = large_one},
      {.op = "log",
       .f = of(log),
       .reference = each(std::log),
       .cases = one,
       .draw = Draw::positive,
       .bad = {integers},
       .large = large_one},
      {.op = "sqrt",
       .f = of(sqrt),
       .reference = each(std::sqrt),
       .cases = one,
       .draw = Draw::positive,
       .bad = {integers},
       .large = large_one},
      {.op = "rsqrt",
       .f = of(rsqrt),
       .reference = each([](double v) { return 1 / std::sqrt(v); }),
       .cases = one,
       .draw = Draw::positive,
       .bad = {integers},
       .large = large_one},
      {.op = "tanh", .f = of(tanh), .reference = each(std::tanh), .cases = one, .bad = {integers}, .large = large_one},
      {.op = "sigmoid",
       .f = of(sigmoid),
       .reference = each(sigmoid_of),
       .cases = one,
       .bad = {integers},
       .large = large_one},
      {.op = "relu",
       .f = of(relu),
       .reference = each([](double v) { return std::max(v, 0.0); }),
       .cases = one,
       .draw = Draw::distinct,
       .bad = {integers},
       .large = large_one},
      {.op = "gelu", .f = of(gelu), .reference = each(gelu_of), .cases = one, .bad = {integers}, .large = large_one},
      {.op = "abs",
       .f = of(abs),
       .reference = each(std::abs),
       .cases = one,
       .draw = Draw::distinct,
       .bad = {bools},
       .large = large_one},
      {.op = "sign",
       .f = of(sign),
       .reference = each(sign_of),
       .cases = one,
       .draw = Draw::distinct,
       .bad = {integers},
       .large = large_one},
      {.op = "clamp",
       .f = [](X x) { return clamp(x[0], -1, 1); },
       .reference = each([](double v) { return std::clamp(v, -1.0, 1.0); }),
       .cases = one,
       .draw = Draw::distinct,
       .bad = {bools,
               bad<ValueError>("expected low <= high, got 2 and 1", {in(3)}, [](X x) { return clamp(x[0], 2, 1); })},
       .large = large_one},
      in_place_of("exp_", exp_, std::exp, Draw::normal),
      in_place_of("log_", log_, std::log, Draw::positive),
      in_place_of("sqrt_", sqrt_, std::sqrt, Draw::positive),
      in_place_of(
          "rsqrt_", rsqrt_, [](double v) { return 1 / std::sqrt(v); }, Draw::positive),
      in_place_of("tanh_", tanh_, std::tanh, Draw::normal),
      in_place_of("sigmoid_", sigmoid_, sigmoid_of, Draw::normal),
      in_place_of(
          "relu_", relu_, [](double v) { return std::max(v, 0.0); }, Draw::distinct),
      in_place_of("abs_", abs_, std::abs, Draw::distinct),
      {.op = "clamp_",
       .f =
           [](X x) {
             Tensor y = copy_of(x[0]);
             return clamp_(y, -1, 1);
           },
       .reference = each([](double v) { return std::clamp(v, -1.0, 1.0); }),
       .cases = one,
       .draw = Draw::distinct,
       .bad = {bools},
       .large = large_one},
      {.op = "dropout",
       .f =
           [](X x) {
             manual_seed(11);
             return dropout(x[0], 0.4);
           },
       .reference = [](A x) { return ref::dropout(x[0], 0.4, 11); },
       .cases = one,
       .bad = {integers,
               bad<ValueError>("expected a probability, got p = 1.5", {in(3)}, [](X x) { return dropout(x[0], 1.5); })},
       .large = large_one},
      {.op = "dropout",
       .variant = "evaluating",
       .f = [](X x) { return dropout(x[0], 0.4, false); },
       .reference = each(same),
       .cases = one,
       .bad = {integers},
       .large = large_one},

      // ---- comparisons and choice
      comparison("eq", eq, [](double a, double b) { return double(a == b); }),
      comparison("ne", ne, [](double a, double b) { return double(a != b); }),
      comparison("lt", lt, [](double a, double b) { return double(a < b); }),
      comparison("le", le, [](double a, double b) { return double(a <= b); }),
      comparison("gt", gt, [](double a, double b) { return double(a > b); }),
      comparison("ge", ge, [](double a, double b) { return double(a >= b); }),
      comparison("eq", eq, [](double v) { return double(v == 0.25); }),
      comparison("ne", ne, [](double v) { return double(v != 0.25); }),
      comparison("lt", lt, [](double v) { return double(v < 0.25); }),
      comparison("le", le, [](double v) { return double(v <= 0.25); }),
      comparison("gt", gt, [](double v) { return double(v > 0.25); }),
      comparison("ge", ge, [](double v) { return double(v >= 0.25); }),
      {.op = "where",
       .f = [](X x) { return where(x[0], x[1], x[2]); },
       .reference = each([](double c, double a, double b) { return c != 0 ? a : b; }),
       .cases = {{in().boolean(), in(), in()},
                 {in(3, 4).boolean(), in(3, 4), in(3, 4)},
                 {in(4).boolean(), in(3, 1), in()},
                 {in(2, 1, 3).boolean(), in(4, 1), in(4, 3)},
                 {in(0, 3).boolean(), in(3), in(0, 3)},
                 {in(4, 3).boolean().transposed(), in(4, 3).transposed(), in(4, 3)},
                 {in(3, 4).boolean().expanded(), in(3, 4).narrowed(), in(4).spaced()}},
       .bad = {bad<DTypeError>("bool", {in(3), in(3), in(3)}),
               bad<DTypeError>("different dtypes", {in(3).boolean(), in(3), in(3).as(DType::f32)}),
               bad<DeviceError>("on different devices", {in(3).boolean(), in(3), in(3).elsewhere()}),
               bad<ShapeError>("do not broadcast", {in(2).boolean(), in(3), in(3)})},
       .large = {in(300, 401).boolean(), in(401), in(300, 401)}},

      // ---- reductions
      {.op = "sum",
       .f = [](X x) { return sum(x[0]); },
       .reference = reducing(total),
       .cases = one,
       .bad = {bad<ShapeError>("dim 2 is out of range", {in(2, 3)}, [](X x) { return sum(x[0], {2}); }),
               bad<ShapeError>("appears twice", {in(2, 3)},
                               [](X x) {
                                 return sum(x[0], {0, -2});
                               })},
       .large = large_one},
      {.op = "sum",
       .variant = "last",
       .f = [](X x) { return sum(x[0], {-1}); },
       .reference = reducing(total, {-1}),
       .cases = one,
       .large = large_one},
      {.op = "sum",
       .variant = "outer_dims",
       .f =
           [](X x) {
             return sum(x[0], {0, 2}, true);
           },
       .reference = reducing(total, {0, 2}, true),
       .cases = {{in(2, 3, 4)},
                 {in(1, 3, 1)},
                 {in(0, 2, 3)},
                 {in(2, 3, 2, 4).channels_last()},
                 {in(2, 3, 3).transposed()},
                 {in(3, 2, 4).expanded()},
                 {in(2, 2, 3).narrowed()}},
       .bad = {bad<ShapeError>("dim 2 is out of range", {in(2, 3)})},
       .large = {in(40, 50, 60)}},
      {.op = "mean",
       .f = [](X x) { return mean(x[0]); },
       .reference = reducing(average),
       .cases = some,
       .bad = {integers},
       .has_empty_case = false,
       .large = large_one},
      {.op = "mean",
       .variant = "first",
       .f = [](X x) { return mean(x[0], {0}, true); },
       .reference = reducing(average, {0}, true),
       .cases = some + Case{in(3, 0)},
       .bad = {integers, out_of_range([](X x) { return mean(x[0], {2}); })},
       .large = large_one},
      {.op = "var",
       .f = [](X x) { return var(x[0]); },
       .reference = reducing(unbiased),
       .cases = Cases(some.begin() + 1, some.end()),
       .bad = {integers},
       .has_empty_case = false,
       .large = large_one},
      {.op = "var",
       .variant = "biased_last",
       .f = [](X x) { return var(x[0], {-1}, 0, true); },
       .reference = reducing(variance, {-1}, true),
       .cases = some + Case{in(0, 3)},
       .bad = {integers, out_of_range([](X x) { return var(x[0], {2}); })},
       .large = large_one},
      {.op = "max",
       .f = [](X x) { return max(x[0]); },
       .reference = reducing(highest),
       .cases = some + Case{in(1, 1)},
       .draw = Draw::distinct,
       .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})},
       .has_empty_case = false,
       .large = large_one},
      {.op = "max",
       .variant = "last",
       .f = [](X x) { return max(x[0], {-1}); },
       .reference = reducing(highest, {-1}),
       .cases = some + Case{in(0, 3)},
       .draw = Draw::distinct,
       .bad = {bad<ShapeError>("nothing to choose from in f64(3, 0)", {in(3, 0)})},
       .large = large_one},
      {.op = "min",
       .f = [](X x) { return min(x[0]); },
       .reference = reducing(lowest),
       .cases = some + Case{in(1, 1)},
       .draw = Draw::distinct,
       .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})},
       .has_empty_case = false,
       .large = large_one},
      {.op = "min",
       .variant = "first",
       .f = [](X x) { return min(x[0], {0}, true); },
       .reference = reducing(lowest, {0}, true),
       .cases = some + Case{in(3, 0)},
       .draw = Draw::distinct,
       .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})},
       .large = large_one},
      {.op = "argmax",
       .f = [](X x) { return argmax(x[0]); },
       .reference = reducing(place_of_highest),
       .cases = some + Case{in(1, 1)},
       .draw = Draw::distinct,
       .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})},
       .gradients = Gradients::none,
       .has_empty_case = false,
       .large = large_one},
      {.op = "argmax",
       .variant = "last",
       .f = [](X x) { return argmax(x[0], -1); },
       .reference = reducing(place_of_highest, {-1}),
       .cases = some + Case{in(0, 3)},
       .draw = Draw::distinct,
       .bad = {bad<ShapeError>("nothing to choose from in dim -1 of f64(3, 0)", {in(3, 0)})},
       .gradients = Gradients::none,
       .large = large_one},
      {.op = "sum_to",
       .f =
           [](X x) {
             return sum_to(x[0], {1, x[0].defined() ? x[0].size(-1) : 1});
           },
       .reference =
           [](A x) {
             Array y({1, x[0].size(-1)});
             for_each_index(x[0].shape, [&](const Dims& at) { y({0, at.back()}) += x[0](at); });
             return y;
           },
       .cases = matrices,
       .bad = {bad<ShapeError>("shapes (2,) and (2, 3) do not broadcast", {in(2, 3)},
                               [](X x) { return sum_to(x[0], {2}); })},
       .large = large_one},

      // ---- softmax
      {.op = "softmax",
       .variant = "last",
       .f = [](X x) { return softmax(x[0], -1); },
       .reference = [](A x) { return exponential(ref::log_softmax(x[0], -1)); },
       .cases = one,
       .bad = {integers, out_of_range([](X x) { return softmax(x[0], 2); })},
       .large = large_one},
      {.op = "softmax",
       .variant = "first",
       .f = [](X x) { return softmax(x[0], 0); },
       .reference = [](A x) { return exponential(ref::log_softmax(x[0], 0)); },
       .cases = one,
       .bad = {integers},
       .large = large_one},
      {.op = "log_softmax",
       .variant = "last",
       .f = [](X x) { return log_softmax(x[0], -1); },
       .reference = [](A x) { return ref::log_softmax(x[0], -1); },
       .cases = one,
       .bad = {integers, out_of_range([](X x) { return log_softmax(x[0], 2); })},
       .large = large_one},
      {.op = "log_softmax",
       .variant = "first",
       .f = [](X x) { return log_softmax(x[0], 0); },
       .reference = [](A x) { return ref::log_softmax(x[0], 0); },
       .cases = one,
       .bad = {integers},
       .large = large_one},

      // ---- views
      {.op = "view",
       .f =
           [](X x) {
             Shape s = x[0].defined() ? x[0].shape() : Shape{};
             s.push_back(1);
             return view(x[0], s);
           },
       .reference = reshaping([](const Shape& s) {
         Shape t = s;
         t.push_back(1);
         return t;
       }),
       .cases = one,
       .bad = {bad<ShapeError>("shape (4, 2) does not fit f64(2, 3)", {in(2, 3)},
                               [](X x) {
                                 return view(x[0], {4, 2});
                               }),
               bad<ShapeError>("cannot be seen as (6,) without a copy; use reshape", {in(2, 3).transposed()},
                               [](X x) { return view(x[0], {6}); })},
       .large = large_one},
      {.op = "reshape",
       .f = [](X x) { return reshape(x[0], {-1}); },
       .reference = reshaping(flat),
       .cases = one,
       .bad = {bad<ShapeError>("only one size of (-1, -1) can be -1", {in(2, 3)},
                               [](X x) {
                                 return reshape(x[0], {-1, -1});
                               }),
               bad<ShapeError>("does not fit f64(2, 3)", {in(2, 3)},
                               [](X x) {
                                 return reshape(x[0], {4, -1});
                               })},
       .large = large_one},
      {.op = "flatten",
       .f = [](X x) { return flatten(x[0], 1); },
       .reference = reshaping([](const Shape& s) {
         return Shape{s[0], s[0] ? numel(s) / s[0] : s[1]};
       }),
       .cases = matrices,
       .bad = {bad<ShapeError>("start_dim 1 comes after end_dim 0", {in(2, 3)},
                               [](X x) { return flatten(x[0], 1, 0); })},
       .large = large_one},
      {.op = "transpose",
       .f = [](X x) { return transpose(x[0], 0, -1); },
       .reference = rearranging(swapped, [](const Dims& at, const Shape&) { return swapped(at); }),
       .cases = one,
       .bad = {out_of_range([](X x) { return transpose(x[0], 0, 2); })},
       .large = large_one},
      {.op = "permute",
       .f =
           [](X x) {
             Dims dims;
             for (int d = x[0].defined() ? x[0].rank() : 0; d > 0; --d) dims.push_back(-(x[0].rank() - d + 1));
             return permute(x[0], dims);
           },
       .reference = rearranging(reversed, [](const Dims& at, const Shape&) { return reversed(at); }),
       .cases = one,
       .bad = {bad<ShapeError>("expected 2 dims", {in(2, 3)}, [](X x) { return permute(x[0], {0}); }),
               bad<ShapeError>("appears twice", {in(2, 3)},
                               [](X x) {
                                 return permute(x[0], {1, -1});
                               })},
       .large = large_one},
      {.op = "narrow",
       .f = [](X x) { return narrow(x[0], -1, 1, 2); },
       .reference = rearranging(
           [](const Shape& s) {
             Shape t = s;
             t[t.size() - 1] = 2;
             return t;
           },
           [](const Dims& at, const Shape&) {
             Dims from = at;
             ++from[from.size() - 1];
             return from;
           }),
       .cases = matrices,
       .bad = {bad<ShapeError>("2 elements from 1 are out of range in dim -1 of f64(3, 2)", {in(3, 2)}),
               bad<ShapeError>("a scalar has no dim to narrow", {in()})},
       .large = large_one},
      {.op = "select",
       .f = [](X x) { return select(x[0], -1, 1); },
       .reference = rearranging([](const Shape& s) { return Shape(std::span(s.begin(), s.end() - 1)); },
                                [](const Dims& at, const Shape&) {
                                  Dims from = at;
                                  from.push_back(1);
                                  return from;
                                }),
       .cases = matrices,
       .bad = {bad<ShapeError>("index 1 is out of range in dim -1 of f64(3, 1)", {in(3, 1)}),
               bad<ShapeError>("a scalar has no dim to select from", {in()})},
       .large = large_one},
      {.op = "expand",
       .f =
           [](X x) {
             return expand(x[0], {3, 2, -1});
           },
       .reference =
           [](A x) {
             Array y({3, 2, x[0].size(-1)});
             for_each_index(y.shape, [&](const Dims& at) { y(at) = x[0](at); });
             return y;
           },
       .cases = {{in(3, 2, 4)},
                 {in(5)},
                 {in(1, 3)},
                 {in(3, 1, 2)},
                 {in(2, 0)},
                 {in(2, 4).transposed()},
                 {in(3, 1, 4).expanded()},
                 {in(2, 3).narrowed()},
                 {in(4).spaced()}},
       .bad = {bad<ShapeError>("cannot be expanded to (3, 2, -1)", {in(4, 5)}, {}),
               bad<ShapeError>("has more dims than (3, 2, -1)", {in(1, 1, 1, 1)})},
       .large = {in(2, 60000)}},
      {.op = "squeeze",
       .f = [](X x) { return squeeze(x[0]); },
       .reference = reshaping([](const Shape& s) {
         Shape t;
         for (const std::int64_t n : s)
           if (n != 1) t.push_back(n);
         return t;
       }),
       .cases = {{in()},
                 {in(1, 1)},
                 {in(3, 1, 2)},
                 {in(1, 0)},
                 {in(4, 1).transposed()},
                 {in(2, 1, 3).narrowed()},
                 {in(3, 1).expanded()},
                 {in(2, 1, 2, 3).channels_last()}},
       .large = {in(300, 1, 401)}},
      {.op = "squeeze",
       .variant = "dim",
       .f = [](X x) { return squeeze(x[0], -1); },
       .reference = reshaping([](const Shape& s) {
         Shape t = s;
         if (!t.empty() && t.back() == 1) t.erase(t.size() - 1);
         return t;
       }),
       .cases = one + Case{in(2, 3, 1)},
       .bad = {out_of_range([](X x) { return squeeze(x[0], 2); })},
       .large = {in(300, 401, 1)}},
      {.op = "unsqueeze",
       .f = [](X x) { return unsqueeze(x[0], -1); },
       .reference = reshaping([](const Shape& s) {
         Shape t = s;
         t.push_back(1);
         return t;
       }),
       .cases = one,
       .bad = {bad<ShapeError>("dim 3 is out of range", {in(2, 3)}, [](X x) { return unsqueeze(x[0], 3); })},
       .large = large_one},

      // ---- copies
      {.op = "clone", .f = of(clone), .reference = each(same), .cases = one, .large = large_one},
      {.op = "contiguous", .f = of(contiguous), .reference = each(same), .cases = one, .large = large_one},
      {.op = "channels_last",
       .f = of(channels_last),
       .reference = each(same),
       .cases = images,
       .bad = {bad<ShapeError>("expected (n, c, h, w), got f64(2, 3)", {in(2, 3)})},
       .large = {in(4, 8, 48, 48)}},
      {.op = "to",
       .variant = "f64",
       .f = [](X x) { return to(x[0], DType::f64); },
       .reference = each(same),
       .cases = one,
       .large = large_one},
      {.op = "copy_",
       .f = in_place(copy_),
       .reference = each([](double, double b) { return b; }),
       .cases = into_first,
       .bad = {bad<ShapeError>("do not broadcast", {in(2), in(3)}),
               bad<ShapeError>("does not fit into", {in(2), in(3, 2)}),
               bad<ValueError>("the second input is an undefined tensor", {in(2), undefined})},
       .large = large_two},
      {.op = "fill_",
       .f = in_place(fill_, 2.5),
       .reference = each([](double) { return 2.5; }),
       .cases = one,
       .large = large_one},
      {.op = "zero_",
       .f = in_place(zero_),
       .reference = each([](double) { return 0.0; }),
       .cases = one,
       .large = large_one},

      // ---- joining
      {.op = "cat",
       .variant = "first",
       .f = [](X x) { return cat(x, 0); },
       .reference = [](A x) { return ref::cat(x, 0); },
       .cases = {{in(3)},
                 {in(2, 3), in(1, 3)},
                 {in(0, 3), in(2, 3)},
                 {in(2), in(3), in(1), in(4), in(5)},
                 {in(4, 3).transposed(), in(2, 3).narrowed()},
                 {in(3, 4).expanded(), in(2, 4).spaced()},
                 {in(2, 3, 2, 2).channels_last(), in(1, 3, 2, 2).channels_last()}},
       .bad = {bad<ShapeError>("tensor 1, f64(2, 4) on", {in(2, 3), in(2, 4)}),
               bad<ShapeError>("scalars have no dim to join", {in(), in()}),
               bad<DTypeError>("have different dtypes", {in(2), in(2).as(DType::f32)}),
               bad<DeviceError>("are on different devices", {in(2), in(2).elsewhere()}),
               bad<ValueError>("tensor 1 is undefined", {in(2), undefined}),
               bad<ValueError>("expected at least one tensor", {})},
       .large = {in(200, 401), in(100, 401)}},
      {.op = "cat",
       .variant = "second",
       .f = [](X x) { return cat(x, 1); },
       .reference = [](A x) { return ref::cat(x, 1); },
       .cases = {{in(2, 3)},
                 {in(2, 3), in(2, 1)},
                 {in(2, 0), in(2, 3)},
                 {in(2, 1, 3), in(2, 2, 3), in(2, 1, 3)},
                 {in(4, 3).transposed(), in(4, 2).narrowed()},
                 {in(3, 4).expanded(), in(3, 2).spaced()},
                 {in(2, 3, 2, 2).channels_last(), in(2, 1, 2, 2).channels_last()}},
       .bad = {bad<ShapeError>("does not fit tensor 0", {in(2, 3), in(3, 3)})},
       .large = {in(300, 200), in(300, 201)}},
      {.op = "stack",
       .f = [](X x) { return stack(x, -1); },
       .reference =
           [](A x) {
             Arrays parts = x;
             for (Array& part : parts) part.shape.push_back(1);
             return ref::cat(parts, parts[0].shape.size() - 1);
           },
       .cases = {{in()},
                 {in(), in(), in()},
                 {in(2, 3), in(2, 3)},
                 {in(0, 3), in(0, 3)},
                 {in(4, 3).transposed(), in(4, 3).narrowed()},
                 {in(3, 4).expanded(), in(3, 4).spaced()},
                 {in(2, 3, 2, 2).channels_last(), in(2, 3, 2, 2)}},
       .bad = {bad<ShapeError>("does not fit tensor 0", {in(2), in(3)}),
               bad<DTypeError>("have different dtypes", {in(2), in(2).as(DType::f32)})},
       .large = {in(300, 200), in(300, 200)}},

      // ---- linear algebra
      {.op = "matmul",
       .f = of(matmul),
       .reference = [](A x) { return ref::matmul(x[0], x[1]); },
       .cases = {{in(3), in(3)},
                 {in(2, 3), in(3)},
                 {in(3), in(3, 2)},
                 {in(2, 3), in(3, 4)},
                 {in(0, 3), in(3, 2)},
                 {in(2, 0), in(0, 3)},
                 {in(2, 3, 4), in(4, 2)},
                 {in(3, 4), in(2, 4, 2)},
                 {in(2, 1, 3, 2), in(3, 2, 2)},
                 {in(0, 3, 2), in(2, 2)},
                 {in(4, 3).transposed(), in(3, 5).transposed()},
                 {in(2, 3, 4).expanded(), in(2, 4, 3).narrowed()},
                 {in(5, 4).spaced(), in(4, 3)},
                 {in(2, 3, 2, 4).channels_last(), in(2, 3, 4, 2).channels_last()}},
       .bad = {bad<ShapeError>("do not match the rows of f64(4, 2)", {in(2, 3), in(4, 2)}),
               bad<ShapeError>("do not broadcast", {in(2, 2, 3), in(3, 3, 2)}),
               bad<ShapeError>("at least one dimension", {in(), in(3)}),
               bad<DTypeError>("floating", {in(2, 3).as(DType::i64), in(3, 2).as(DType::i64)}),
               bad<DTypeError>("different dtypes", {in(2, 3), in(3, 2).as(DType::f32)}),
               bad<DeviceError>("different devices", {in(2, 3), in(3, 2).elsewhere()})},
       .tolerance = 2,
       .large = {in(200, 150), in(150, 220)}},
      {.op = "linear",
       .f = [](X x) { return linear(x[0], x[1], if_any(x, 2)); },
       .reference =
           [](A x) {
             Array y = ref::matmul(x[0], ref::transpose(x[1]));
             for_each_index(y.shape, [&](const Dims& at) { y(at) += x[2]({at.back()}); });
             return y;
           },
       .cases = {{in(5, 3), in(4, 3), in(4)},
                 {in(3), in(4, 3), in(4)},
                 {in(2, 5, 3), in(1, 3), in(1)},
                 {in(0, 3), in(4, 3), in(4)},
                 {in(2, 0), in(3, 0), in(3)},
                 {in(5, 3).transposed(), in(4, 3).transposed(), in(4)},
                 {in(3, 3).expanded(), in(4, 3).narrowed(), in(4).spaced()},
                 {in(2, 3, 2).transposed(), in(2, 2), in(2)}},
       .bad = {bad<ShapeError>("expected an input (..., in) and a weight (out, in)", {in(5, 3), in(4, 2), in(4)}),
               bad<ShapeError>("expected a bias (4,)", {in(5, 3), in(4, 3), in(3)}),
               bad<DTypeError>("different dtypes", {in(5, 3), in(4, 3).as(DType::f32), in(4)}),
               bad<DTypeError>("different dtypes", {in(5, 3), in(4, 3), in(4).as(DType::f32)}),
               bad<DeviceError>("different devices", {in(5, 3), in(4, 3).elsewhere(), in(4)})},
       .tolerance = 2,
       .large = {in(200, 150), in(220, 150), in(220)}},
      {.op = "linear",
       .variant = "no_bias",
       .f = [](X x) { return linear(x[0], x[1]); },
       .reference = [](A x) { return ref::matmul(x[0], ref::transpose(x[1])); },
       .cases = {{in(5, 3), in(4, 3)},
                 {in(3), in(4, 3)},
                 {in(2, 5, 3), in(1, 3)},
                 {in(0, 3), in(4, 3)},
                 {in(5, 3).transposed(), in(4, 3).transposed()},
                 {in(3, 3).expanded(), in(4, 3).narrowed()}},
       .tolerance = 2,
       .large = {in(200, 150), in(220, 150)}},

      // ---- convolution
      conv_row("", {}),
      conv_row("same", geometry(1, 1, 1, 1)),
      conv_row("strided", geometry(2, 1, 1, 1)),
      conv_row("dilated", geometry(1, 2, 2, 1)),
      conv_row("grouped", geometry(2, 1, 1, 3)),
      conv_row("pointwise", {}, 1),
      conv_row("oblong", {.stride = {1, 2}, .padding = {0, 2}, .dilation = {2, 1}}),
      conv_row("no_bias", geometry(1, 1, 1, 1), 3, false),

      // ---- pooling, normalisation, losses
      pool_row("", {}),
      pool_row("overlapping", {{3, 3}, {2, 2}, {1, 1}}),
      pool_row("oblong", {{1, 3}, {2, 1}, {0, 1}}),
      norm_row(
          "training", true,
          {{in(4, 3), in(3), in(3)},
           {in(2, 3, 4, 5), in(3), in(3)},
           {in(3, 2, 2, 2).channels_last(), in(2), in(2)},
           {in(5, 3).transposed(), in(3).spaced(), in(3)},
           {in(3, 4).narrowed(), in(4), in(4).expanded()},
           {in(4, 0), in(0), in(0)},
           {in(2, 1, 3, 2), in(1), in(1)}},
          {bad<ValueError>("training needs more than one value a channel, got f64(1, 3)", {in(1, 3), in(3), in(3)}),
           bad<ShapeError>("weight must have shape (3,), got f64(4,)", {in(2, 3), in(4), in(3)}),
           bad<DeviceError>("bias is on another device than x", {in(2, 3), in(3), in(3).elsewhere()})}),
      norm_row("evaluating", false,
               {{in(4, 3), in(3), in(3)},
                {in(2, 3, 4, 5), in(3), in(3)},
                {in(3, 2, 2, 2).channels_last(), in(2), in(2)},
                {in(5, 3).transposed(), in(3).spaced(), in(3)},
                {in(0, 3), in(3), in(3)},
                {in(1, 2), in(2), in(2)}},
               {bad<ValueError>("evaluation needs running_mean and running_var", {in(4, 3), in(3), in(3)},
                                [](X x) { return batch_norm(x[0], x[1], x[2], {}, {}, false); })}),
      norm_row("no_affine", true,
               {{in(4, 3)},
                {in(2, 3, 4, 5)},
                {in(3, 2, 2, 2).channels_last()},
                {in(5, 3).transposed()},
                {in(4, 0)},
                {in(3, 4).narrowed()}},
               {}),
      loss_row("", {}),
      loss_row("sum", {.reduction = Reduction::sum}),
      loss_row("none", {.reduction = Reduction::none}),
      loss_row("smoothed", {.label_smoothing = 0.2}),
  };
}

}  // namespace

const std::vector<OpRow>& op_list() {
  static const std::vector<OpRow> list = rows();
  return list;
}

}  // namespace bytetape::test
