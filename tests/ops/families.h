#pragma once
// What rows of the op list share: how ops are called, shapes, bad inputs, references.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "bytetape/autograd/ops.h"
#include "tests/ops/op_list.h"
#include "tests/support/reference.h"

namespace bytetape::test {

namespace ref = reference;
using X = const Inputs&;
using A = const Arrays&;

// ---- how ops of one kind are called

inline Function of(Tensor (*f)(const Tensor&)) {
  return [f](X x) { return f(x[0]); };
}
inline Function of(Tensor (*f)(const Operand&, const Operand&)) {
  return [f](X x) { return f(x[0], x[1]); };
}
inline Function of(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](X x) { return f(x[0], x[1]); };
}
inline Function of(Tensor (*f)(const Tensor&, const Operand&)) {
  return [f](X x) { return f(x[0], x[1]); };
}
/// f, which writes into its first input and returns it, on a copy of that.
inline Function in_place(const Function& f) {
  return [f](X x) {
    Inputs inputs = x;
    if (x[0].defined()) inputs[0] = clone(x[0]);
    Tensor y = f(inputs);
    EXPECT_TRUE(y.is_same(inputs[0]));
    EXPECT_EQ(y.storage().version(), 1u);
    return y;
  };
}
inline Function in_place(Tensor (*f)(const Tensor&)) { return in_place(of(f)); }
inline Function in_place(Tensor (*f)(const Tensor&, const Tensor&)) { return in_place(of(f)); }
inline Function in_place(Tensor (*f)(const Tensor&, const Operand&)) { return in_place(of(f)); }
inline Function in_place(Tensor (*f)(const Tensor&, const Operand&), Scalar s) {
  return in_place([f, s](X x) { return f(x[0], s); });
}

// ---- shapes

inline const Cases one{{in()},
                       {in(7)},
                       {in(0, 3)},
                       {in(2, 3, 4)},
                       {in(4, 3).transposed()},
                       {in(2, 5).narrowed()},
                       {in(3, 4).expanded()},
                       {in(6).spaced()},
                       {in(2, 3, 2, 2).channels_last()}};
inline const Cases two{{in(), in()},
                       {in(3, 4), in(3, 4)},
                       {in(3, 4), in(4)},
                       {in(3, 1), in(1, 4)},
                       {in(), in(2, 1, 3)},
                       {in(0, 3), in(3)},
                       {in(4, 3).transposed(), in(4, 3)},
                       {in(3, 4).expanded(), in(3, 4).narrowed()},
                       {in(2, 3, 2, 2).channels_last(), in(3, 1, 1)},
                       {in(5).spaced(), in(2, 1)}};
inline const Cases into_first{{in(), in()},
                              {in(3, 4), in(3, 4)},
                              {in(3, 4), in(4)},
                              {in(2, 3, 4), in(3, 1)},
                              {in(0, 3), in(3)},
                              {in(4, 3).transposed(), in(4, 3).spaced()},
                              {in(2, 3, 2, 2).channels_last(), in(3, 1, 1)},
                              {in(3, 4).narrowed(), in(3, 4).expanded()}};
inline const Cases some{{in()},  // where every element counts: nothing of size zero
                        {in(5)},
                        {in(3, 4)},
                        {in(2, 3, 4)},
                        {in(4, 3).transposed()},
                        {in(3, 5).narrowed()},
                        {in(4, 3).expanded()},
                        {in(2, 3, 2, 4).channels_last()}};
inline Cases operator+(Cases cases, const Case& more) {
  cases.push_back(more);
  return cases;
}
inline const Cases matrices{{in(2, 3)},
                            {in(1, 4)},
                            {in(0, 3)},
                            {in(2, 3, 4)},
                            {in(4, 3).transposed()},
                            {in(2, 5).narrowed()},
                            {in(3, 4).expanded()},
                            {in(3, 3).spaced()},
                            {in(2, 3, 2, 3).channels_last()}};
inline const Cases images{{in(1, 1, 4, 4)},
                          {in(2, 3, 5, 4)},
                          {in(0, 2, 4, 4)},
                          {in(2, 3, 4, 6).channels_last()},
                          {in(2, 2, 4, 5).transposed()},
                          {in(1, 2, 6, 4).narrowed()},
                          {in(2, 2, 4, 4).expanded()}};
inline const Case large_one{in(300, 401)}, large_two{in(300, 401), in(401)};

// ---- bad inputs

inline const BadInput integers = bad<DTypeError>("expected a floating dtype, got i64(3,)", {in(3).as(DType::i64)});
inline const BadInput bools = bad<DTypeError>("expected numbers, got bool(3,)", {in(3).boolean()});
inline const BadInput no_such_integer = bad<DTypeError>("i64 cannot represent the number", {in(3).as(DType::i64)});
inline const std::vector<BadInput> bad_with_number{bools, no_such_integer};
inline const BadInput one_bool = bad<DTypeError>("expected numbers, got bool(3,)", {in(3).boolean(), in(3)});
inline const BadInput two_dtypes =
    bad<DTypeError>("inputs of different dtypes: f64(3,)", {in(3), in(3).as(DType::f32)});
inline const BadInput two_devices = bad<DeviceError>("inputs on different devices", {in(3), in(3).elsewhere()});
inline const BadInput no_second = bad<ValueError>("the second input is an undefined tensor", {in(3), undefined});
inline const BadInput no_broadcast = bad<ShapeError>(" and f64(2,) on ", {in(2, 3), in(2)});
inline std::vector<BadInput> operator+(std::vector<BadInput> all, const std::vector<BadInput>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
inline std::vector<BadInput> bad_comparison(Tensor (*f)(const Operand&, const Operand&)) {
  const auto two_numbers = bad<ValueError>("expected a tensor, got two numbers", {}, [f](X) { return f(1, 2); });
  return {two_dtypes, two_devices, no_second, no_broadcast, two_numbers};
}
inline std::vector<BadInput> bad_pairs(Tensor (*f)(const Operand&, const Operand&)) {
  return bad_comparison(f) + std::vector{one_bool};
}
/// What f cannot write into.
inline std::vector<BadInput> bad_targets(const Function& f) {
  return {bad<AutogradError>("cannot write into a leaf that requires grad, f64(3,) on", {in(3), in(3)}, f),
          bad<ValueError>("whose elements share memory", {in(2, 3).expanded(), in(3)}, f)};
}
inline std::vector<BadInput> bad_pairs(Tensor (*f)(const Tensor&, const Operand&)) {
  return bad_targets(of(f)) +
         std::vector{one_bool,
                     two_dtypes,
                     two_devices,
                     no_second,
                     bad<ShapeError>("expected b to broadcast to the shape of a, f64(2, 3)", {in(2, 3), in(2)}),
                     bad<ShapeError>("expected b to broadcast to the shape of a, f64(3,)", {in(3), in(2, 3)})};
}
inline BadInput out_of_range(const Function& f) {
  return bad<ShapeError>("dim 2 is out of range for shape (2, 3)", {in(2, 3)}, f);
}

// ---- references

using Values = const std::vector<double>&;
inline double total(Values v) { return std::accumulate(v.begin(), v.end(), 0.0); }
inline double average(Values v) { return total(v) / static_cast<double>(v.size()); }
inline double squares(Values v) {
  const double mean = average(v);
  double sum = 0;
  for (const double e : v) sum += (e - mean) * (e - mean);
  return sum;
}
inline double variance(Values v) { return squares(v) / static_cast<double>(v.size()); }
inline double unbiased(Values v) { return squares(v) / std::max(0.0, static_cast<double>(v.size()) - 1); }
inline double highest(Values v) { return *std::max_element(v.begin(), v.end()); }
inline double lowest(Values v) { return *std::min_element(v.begin(), v.end()); }
inline double place_of_highest(Values v) {
  return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
}
inline double place_of_lowest(Values v) {
  return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
}
inline double gelu_of(double v) { return v * 0.5 * std::erfc(-v * std::numbers::sqrt2 / 2); }
inline double gelu_tanh_of(double v) {
  return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
}
inline double sigmoid_of(double v) { return 1 / (1 + std::exp(-v)); }
inline double sign_of(double v) { return (v > 0) - (v < 0); }
inline double same(double v) { return v; }
inline Shape flat(const Shape& s) { return {numel(s)}; }
inline Shape swapped(const Shape& s) {
  Shape t = s;
  if (!t.empty()) std::swap(t[0], t[t.size() - 1]);
  return t;
}
inline Shape reversed(const Shape& s) {
  Shape t = s;
  std::reverse(t.begin(), t.end());
  return t;
}
inline Array exponential(Array x) {
  for (double& v : x.values) v = std::exp(v);
  return x;
}
inline const Array* if_any(A x, std::size_t i) { return i < x.size() ? &x[i] : nullptr; }
inline Tensor if_any(X x, std::size_t i) { return i < x.size() ? x[i] : Tensor(); }

// ---- rows that are alike

/// Of a row with relu behind sums of halves: biases, the last inputs, with which no sum comes near 0.
inline void away_from_the_kink(OpRow& row) {
  for (Case& inputs : row.cases) inputs.back() = inputs.back().eighths();
  row.large.back() = row.large.back().eighths();
}

inline OpRow in_place_of(const std::string& op, Tensor (*f)(const Tensor&), double (*expected)(double), Draw draw) {
  constexpr const char* of_any_number[] = {"abs_", "neg_", "floor_", "ceil_", "round_"};
  const bool any_number = std::count(std::begin(of_any_number), std::end(of_any_number), op) > 0;
  return {op,
          "",
          in_place(f),
          each(expected),
          one,
          draw,
          bad_targets(of(f)) + std::vector{any_number ? bools : integers},
          Gradients::twice,
          1,
          true,
          large_one};
}

}  // namespace bytetape::test
