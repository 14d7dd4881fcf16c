#include <limits>

#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

template <const char* op_type>
void compare(Conversion& c) {
  c.set_out(c.graph.add(op_type, {c.in(0), c.in(1)}));
}
constexpr char equal[] = "Equal", less[] = "Less", less_equal[] = "LessOrEqual", greater[] = "Greater",
               greater_equal[] = "GreaterOrEqual", logical_and[] = "And", logical_or[] = "Or", logical_xor[] = "Xor";

void ne(Conversion& c) { c.set_out(c.graph.add("Not", {c.graph.add("Equal", {c.in(0), c.in(1)})})); }

/// Returns input i as a bool tensor.
std::string truth(Conversion& c, std::size_t i) { return c.is_nonzero(c.in(i), c.dtype(c.is_number(i) ? 1 - i : i)); }

template <const char* op_type>
void logical(Conversion& c) {
  c.set_out(c.graph.add(op_type, {truth(c, 0), truth(c, 1)}));
}
void logical_not(Conversion& c) { c.set_out(c.graph.add("Not", {truth(c, 0)})); }

/// Returns a bool tensor of the shape of x with one value.
std::string constant_like(Conversion& c, bool value) {
  return c.graph.add("Expand", {c.graph.number(value, DType::boolean), c.graph.sizes(c.shape())});
}
void isnan(Conversion& c) {
  c.set_out(is_floating(c.dtype()) ? c.graph.add("IsNaN", {c.in()}) : constant_like(c, false));
}
std::string magnitude_is_infinite(Conversion& c) {
  const std::string infinity = c.graph.number(std::numeric_limits<double>::infinity(), c.dtype());
  return c.graph.add("Equal", {c.graph.add("Abs", {c.in()}), infinity});
}
void isinf(Conversion& c) { c.set_out(is_floating(c.dtype()) ? magnitude_is_infinite(c) : constant_like(c, false)); }
void isfinite(Conversion& c) {
  if (!is_floating(c.dtype())) return c.set_out(constant_like(c, true));
  c.set_out(c.graph.add("Not", {c.graph.add("Or", {c.graph.add("IsNaN", {c.in()}), magnitude_is_infinite(c)})}));
}

/// Chooses elements of a where the mask is true, and of b elsewhere. onnxruntime's Where takes no bool elements.
void choose(Conversion& c, const std::string& mask, const std::string& a, const std::string& b) {
  const auto add = [&](const char* op, const std::vector<std::string>& in) { return c.graph.add(op, in); };
  const bool is_bool = c.out_dtype() == DType::boolean;
  c.set_out(is_bool ? add("Or", {add("And", {mask, a}), add("And", {add("Not", {mask}), b})})
                    : add("Where", {mask, a, b}));
}
void where(Conversion& c) { choose(c, c.in(0), c.in(1), c.in(2)); }
void masked_fill(Conversion& c) { choose(c, c.in(1), c.in(2), c.in(0)); }

constexpr Converter converters[] = {
    {"eq", compare<equal>},
    {"ge", compare<greater_equal>},
    {"gt", compare<greater>},
    {"isfinite", isfinite},
    {"isinf", isinf},
    {"isnan", isnan},
    {"le", compare<less_equal>},
    {"logical_and", logical<logical_and>},
    {"logical_not", logical_not},
    {"logical_or", logical<logical_or>},
    {"logical_xor", logical<logical_xor>},
    {"lt", compare<less>},
    {"masked_fill", masked_fill},
    {"ne", ne},
    {"where", where},
};

}  // namespace

Converters compare_converters() { return converters; }

}  // namespace bytetape::onnx
