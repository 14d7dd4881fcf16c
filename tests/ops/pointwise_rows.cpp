#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

static const Function cut = [](X x) { return clamp_(x[0], -1, 1); };
static const Function leak = [](X x) { return leaky_relu_(x[0], 0.25); };
static const Function fold = [](X x) { return leaky_relu_(x[0], -0.5); };

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> pointwise_rows() {
  return {
    {.op = "exp", .f = of(exp), .reference = each(std::exp), .cases = one, .bad = {integers}},
    {.op = "log", .f = of(log), .reference = each(std::log), .cases = one, .draw = Draw::positive, .bad = {integers}},
    {.op = "log1p", .f = of(log1p), .reference = each(std::log1p), .cases = one,
     .draw = Draw::positive, .bad = {integers}},
    {.op = "expm1", .f = of(expm1), .reference = each(std::expm1), .cases = one, .bad = {integers}},
    {.op = "sin", .f = of(sin), .reference = each(std::sin), .cases = one, .bad = {integers}},
    {.op = "cos", .f = of(cos), .reference = each(std::cos), .cases = one, .bad = {integers}},
    {.op = "sqrt", .f = of(sqrt), .reference = each(std::sqrt), .cases = one, .draw = Draw::positive,
     .bad = {integers}},
    {.op = "rsqrt", .f = of(rsqrt), .reference = each([](double v) { return 1 / std::sqrt(v); }), .cases = one,
     .draw = Draw::positive, .bad = {integers}},
    {.op = "tanh", .f = of(tanh), .reference = each(std::tanh), .cases = one, .bad = {integers}},
    {.op = "sigmoid", .f = of(sigmoid), .reference = each(sigmoid_of), .cases = one, .bad = {integers}},
    {.op = "relu", .f = of(relu), .reference = each([](double v) { return std::max(v, 0.0); }), .cases = one,
     .draw = Draw::distinct, .bad = {integers}},
    {.op = "gelu", .f = of(gelu), .reference = each(gelu_of), .cases = one, .bad = {integers}},
    {.op = "gelu", .variant = "tanh", .f = [](X x) { return gelu(x[0], Approximate::tanh); },
     .reference = each(gelu_tanh_of), .cases = one, .bad = {integers}},
    {.op = "erf", .f = of(erf), .reference = each(std::erf), .cases = one, .bad = {integers}},
    {.op = "silu", .f = of(silu), .reference = each([](double v) { return v * sigmoid_of(v); }), .cases = one,
     .bad = {integers}},
    {.op = "leaky_relu", .f = [](X x) { return leaky_relu(x[0]); }, .reference = each([](double v) { return v > 0 ? v : 0.01 * v; }),
     .cases = one, .draw = Draw::distinct, .bad = {integers}},
    {.op = "leaky_relu", .variant = "folding", .f = [](X x) { return leaky_relu(x[0], -0.5); },
     .reference = each([](double v) { return v > 0 ? v : -0.5 * v; }), .cases = one, .draw = Draw::distinct,
     .bad = {integers}},
    {.op = "softplus", .f = [](X x) { return softplus(x[0]); }, .reference = each([](double v) { return std::log1p(std::exp(v)); }),
     .cases = one,
     .bad = {integers, bad<ValueError>("expected a beta other than 0", {in(3)}, [](X x) { return softplus(x[0], 0); })}},
    {.op = "softplus", .variant = "straight", .f = [](X x) { return softplus(x[0], -2, -2); },  // where x < 1
     .reference = each([](double v) { return v < 1 ? v : std::log1p(std::exp(-2 * v)) / -2; }), .cases = one,
     .draw = Draw::distinct},
    {.op = "abs", .f = of(abs), .reference = each(std::abs), .cases = one, .draw = Draw::distinct, .bad = {bools}},
    {.op = "sign", .f = of(sign), .reference = each(sign_of), .cases = one, .draw = Draw::distinct,
     .bad = {integers}},
    {.op = "floor", .f = of(floor), .reference = each(std::floor), .cases = one,
     .draw = Draw::distinct, .bad = {bools}},
    {.op = "ceil", .f = of(ceil), .reference = each(std::ceil), .cases = one,
     .draw = Draw::distinct, .bad = {bools}},
    {.op = "round", .f = of(round), .reference = each(std::nearbyint), .cases = one,
     .draw = Draw::distinct, .bad = {bools}},
    {.op = "clamp", .f = [](X x) { return clamp(x[0], -1, 1); },
     .reference = each([](double v) { return std::clamp(v, -1.0, 1.0); }), .cases = one, .draw = Draw::distinct,
     .bad = {bools,
             bad<ValueError>("expected low <= high, got 2 and 1", {in(3)}, [](X x) { return clamp(x[0], 2, 1); }),
             bad<ValueError>("expected low <= high, got nan and 1", {in(3)}, [](X x) { return clamp(x[0], NAN, 1); }),
             bad<DTypeError>("i64 cannot represent the number 0.5", {in(3).as(DType::i64)},
                             [](X x) { return clamp(x[0], 0.5, 1); })}},
    {.op = "clamp", .variant = "min", .f = [](X x) { return clamp_min(x[0], 0); },
     .reference = each([](double v) { return std::max(v, 0.0); }), .cases = one, .draw = Draw::distinct,
     .bad = {bools, bad<ValueError>("expected low <= high, got nan and inf", {in(3)},
                                    [](X x) { return clamp_min(x[0], NAN); })}},
    {.op = "clamp", .variant = "max", .f = [](X x) { return clamp_max(x[0], 0); },
     .reference = each([](double v) { return std::min(v, 0.0); }), .cases = one, .draw = Draw::distinct,
     .bad = {bools, bad<DTypeError>("u8 cannot represent the number -1", {in(3).as(DType::u8)},
                                    [](X x) { return clamp_max(x[0], -1); })}},
    in_place_of("exp_", exp_, std::exp, Draw::normal),
    in_place_of("log_", log_, std::log, Draw::positive),
    in_place_of("log1p_", log1p_, std::log1p, Draw::positive),
    in_place_of("expm1_", expm1_, std::expm1, Draw::normal),
    in_place_of("sin_", sin_, std::sin, Draw::normal),
    in_place_of("cos_", cos_, std::cos, Draw::normal),
    in_place_of("sqrt_", sqrt_, std::sqrt, Draw::positive),
    in_place_of("rsqrt_", rsqrt_, [](double v) { return 1 / std::sqrt(v); }, Draw::positive),
    in_place_of("tanh_", tanh_, std::tanh, Draw::normal),
    in_place_of("sigmoid_", sigmoid_, sigmoid_of, Draw::normal),
    in_place_of("relu_", relu_, [](double v) { return std::max(v, 0.0); }, Draw::distinct),
    in_place_of("erf_", erf_, std::erf, Draw::normal),
    in_place_of("silu_", silu_, [](double v) { return v * sigmoid_of(v); }, Draw::normal),
    in_place_of("abs_", abs_, std::abs, Draw::distinct),
    in_place_of("floor_", floor_, std::floor, Draw::distinct),
    in_place_of("ceil_", ceil_, std::ceil, Draw::distinct),
    in_place_of("round_", round_, std::nearbyint, Draw::distinct),
    {.op = "leaky_relu_", .f = in_place(leak), .reference = each([](double v) { return v > 0 ? v : 0.25 * v; }),
     .cases = one, .draw = Draw::distinct, .bad = bad_targets(leak) + std::vector{integers}},
    {.op = "leaky_relu_", .variant = "folding", .f = in_place(fold), .reference = each([](double v) { return v > 0 ? v : -0.5 * v; }),
     .cases = one, .draw = Draw::distinct, .bad = {integers}},
    {.op = "clamp_", .f = in_place(cut), .reference = each([](double v) { return std::clamp(v, -1.0, 1.0); }),
     .cases = one, .draw = Draw::distinct, .bad = bad_targets(cut) + std::vector{bools}},
    {.op = "clamp_", .variant = "max", .f = in_place([](X x) { return clamp_max_(x[0], 0); }),
     .reference = each([](double v) { return std::min(v, 0.0); }), .cases = one, .draw = Draw::distinct, .bad = {bools}},
  };
}
// clang-format on

}  // namespace bytetape::test
