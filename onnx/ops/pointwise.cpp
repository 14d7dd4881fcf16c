#include "bytetape/onnx/ops/pointwise.h"

#include <numbers>

#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

/// Converts an op that ONNX has under this name.
template <const char* op_type>
void same(Conversion& c) {
  c.set_out(c.graph.add(op_type, {c.in()}));
}
constexpr char exp_type[] = "Exp", log_type[] = "Log", sin_type[] = "Sin", cos_type[] = "Cos", sqrt_type[] = "Sqrt",
               tanh_type[] = "Tanh", sigmoid_type[] = "Sigmoid", relu_type[] = "Relu", erf_type[] = "Erf",
               abs_type[] = "Abs", sign_type[] = "Sign", neg_type[] = "Neg", floor_type[] = "Floor",
               ceil_type[] = "Ceil", round_type[] = "Round";

/// Returns the result of an operator that ONNX lacks in bf16, of x in the dtype of the input. It is computed in f32.
std::string without_bf16(Conversion& c, const char* op_type, const std::string& x) {
  if (c.dtype() != DType::bf16) return c.graph.add(op_type, {x});
  return c.cast(c.graph.add(op_type, {c.cast(x, DType::f32)}), DType::bf16);
}
template <const char* op_type>
void same_without_bf16(Conversion& c) {
  c.set_out(without_bf16(c, op_type, c.in()));
}

/// Converts a function that leaves integers as they are.
template <const char* op_type>
void rounding(Conversion& c) {
  c.set_out(is_floating(c.dtype()) ? without_bf16(c, op_type, c.in()) : c.in());
}

// ONNX has no Neg of u8, whose values wrap around.
void neg(Conversion& c) {
  if (c.dtype() != DType::u8) return same<neg_type>(c);
  c.set_out(c.cast(c.graph.add("Neg", {c.cast(c.in(), DType::i32)}), DType::u8));
}

void rsqrt(Conversion& c) { c.set_out(c.graph.add("Reciprocal", {c.graph.add("Sqrt", {c.in()})})); }

/// Selects `near` where |x| < 1/2, and `far` elsewhere.
std::string near_zero(Conversion& c, const std::string& near, const std::string& far) {
  const std::string half = c.graph.number(0.5, c.dtype());
  return c.graph.add("Where", {c.graph.add("Less", {c.graph.add("Abs", {c.in()}), half}), near, far});
}

// log(u) x / (u - 1) with u = 1 + x, and x where u is 1 (Kahan): the rounding of u cancels.
void log1p(Conversion& c) {
  const std::string one = c.graph.number(1, c.dtype()), x = c.in(), u = c.graph.add("Add", {x, one}),
                    log = c.graph.add("Log", {u}), rest = c.graph.add("Sub", {u, one}),
                    scaled = c.graph.add("Div", {c.graph.add("Mul", {log, x}), rest}),
                    near = c.graph.add("Where", {c.graph.add("Equal", {u, one}), x, scaled});
  c.set_out(near_zero(c, near, log));
}

// (u - 1) x / log(u) with u = exp(x), and x where u is 1 (Kahan).
void expm1(Conversion& c) {
  const std::string one = c.graph.number(1, c.dtype()), x = c.in(), u = c.graph.add("Exp", {x}),
                    rest = c.graph.add("Sub", {u, one}), log = c.graph.add("Log", {u}),
                    scaled = c.graph.add("Div", {c.graph.add("Mul", {rest, x}), log}),
                    near = c.graph.add("Where", {c.graph.add("Equal", {u, one}), x, scaled});
  c.set_out(near_zero(c, near, rest));
}

void leaky_relu(Conversion& c) {
  c.set_out(c.graph.add("LeakyRelu", {c.in()}, {{"alpha", c.number("negative_slope")}}));
}

void softplus(Conversion& c) {
  const std::string beta = c.graph.number(c.number("beta"), c.dtype()), scaled = c.graph.add("Mul", {c.in(), beta}),
                    smooth = c.graph.add("Div", {without_bf16(c, "Softplus", scaled), beta}),
                    is_linear = c.graph.add("Greater", {scaled, c.graph.number(c.number("threshold"), c.dtype())});
  c.set_out(c.graph.add("Where", {is_linear, c.in(), smooth}));
}

/// Returns x (1 + y) / 2.
std::string half_of(Conversion& c, const std::string& x, const std::string& y, DType dtype) {
  const std::string sum = c.graph.add("Add", {y, c.graph.number(1, dtype)});
  return c.graph.add("Mul", {c.graph.add("Mul", {x, c.graph.number(0.5, dtype)}), sum});
}

std::string gelu_tanh(Conversion& c, const std::string& x, DType dtype) {
  const std::string square = c.graph.add("Mul", {x, x}),
                    cubic = c.graph.add("Mul", {square, c.graph.number(0.044715, dtype)}),
                    factor = c.graph.add("Add", {cubic, c.graph.number(1, dtype)}),
                    root = c.graph.number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi, dtype),
                    inner = c.graph.add("Mul", {c.graph.add("Mul", {x, root}), factor});
  return half_of(c, x, c.graph.add("Tanh", {inner}), dtype);
}

void gelu(Conversion& c) {
  if (c.text("approximate") == "tanh") return c.set_out(gelu_tanh(c, c.in(), c.dtype()));
  const std::string scaled = c.graph.add("Mul", {c.in(), c.graph.number(1 / std::numbers::sqrt2, c.dtype())});
  c.set_out(half_of(c, c.in(), c.graph.add("Erf", {scaled}), c.dtype()));
}

void silu(Conversion& c) { c.set_out(c.graph.add("Mul", {c.in(), c.graph.add("Sigmoid", {c.in()})})); }

void clamp(Conversion& c) {
  const auto bound = [&](const char* name) { return c.graph.number(c.number(name), c.dtype()); };
  if (!is_floating(c.dtype())) {
    // The limits of i64 are no doubles, and bounds nobody wrote are beyond them.
    constexpr double most = 9.2e18;
    std::string x = c.in();
    if (c.number("low") > -most)
      x = c.graph.add("Max", {x, c.graph.number(static_cast<std::int64_t>(c.number("low")), c.dtype())});
    if (c.number("high") < most)
      x = c.graph.add("Min", {x, c.graph.number(static_cast<std::int64_t>(c.number("high")), c.dtype())});
    return c.set_out(x);
  }
  c.set_out(c.graph.add("Clip", {c.in(), bound("low"), bound("high")}));
}

constexpr Converter converters[] = {
    {"abs", same<abs_type>},
    {"ceil", rounding<ceil_type>},
    {"clamp", clamp},
    {"cos", same_without_bf16<cos_type>},
    {"erf", same<erf_type>},
    {"exp", same<exp_type>},
    {"expm1", expm1},
    {"floor", rounding<floor_type>},
    {"gelu", gelu},
    {"leaky_relu", leaky_relu},
    {"log", same<log_type>},
    {"log1p", log1p},
    {"neg", neg},
    {"relu", same<relu_type>},
    {"round", rounding<round_type>},
    {"rsqrt", rsqrt},
    {"sigmoid", same<sigmoid_type>},
    {"sign", same<sign_type>},
    {"silu", silu},
    {"sin", same_without_bf16<sin_type>},
    {"softplus", softplus},
    {"sqrt", same<sqrt_type>},
    {"tanh", same<tanh_type>},
};

}  // namespace

std::string activated(Conversion& c, const std::string& x, const std::string& activation, DType dtype) {
  if (activation == "none") return x;
  if (activation == "relu") return c.graph.add("Relu", {x});
  return gelu_tanh(c, x, dtype);
}

Converters pointwise_converters() { return converters; }

}  // namespace bytetape::onnx
