#include "bytetape/core/factories.h"
#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// A running statistic.
Tensor constant(const Tensor& x, double v) {
  return full({x.size(1)}, v, is_floating(x.dtype()) ? x.dtype() : DType::f64, x.device());
}

OpRow norm_row(const std::string& variant, bool training, const Cases& cases, std::vector<BadInput> bads) {
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
  bads.push_back(bad<ShapeError>("expected x (n, c), (n, c, l) or (n, c, h, w), got f64(3,)", {in(3), in(3), in(3)},
                                 [](X x) { return batch_norm(x[0], x[1], x[2], {}, {}, true); }));
  const Case large = cases[0].size() == 1 ? Case{in(12, 16, 40, 40)} : Case{in(12, 16, 40, 40), in(16), in(16)};
  return {"batch_norm", variant, f, reference, cases, Draw::normal, bads, Gradients::twice, 3, true, large};
}

/// Training with what is done in the same pass: the fourth input, where there is one, is the residual.
OpRow fused_row(const std::string& variant, bool training, Activation activation, const Cases& cases,
                const std::vector<BadInput>& bads) {
  const bool has_residual = cases[0].size() > 3;
  OpRow row = norm_row(variant, training, cases, bads);
  row.f = [=](X x) {
    const auto running = [&](double v) { return training || !x[0].defined() ? Tensor() : constant(x[0], v); };
    return batch_norm(x[0], x[1], x[2], running(0.25), running(1.5), training, 0.1, 1e-5, activation, if_any(x, 3));
  };
  row.reference = [=, reference = row.reference](A x) {
    Array y = reference({x[0], x[1], x[2]});
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      if (has_residual) y.values[i] += x[3].values[i];
      if (activation == Activation::relu) y.values[i] = std::max(y.values[i], 0.0);
      if (activation == Activation::gelu_tanh) y.values[i] = gelu_tanh_of(y.values[i]);
    }
    return y;
  };
  row.large = {in(12, 16, 40, 40).channels_last(), in(16), in(16)};
  if (has_residual) row.large.push_back(in(12, 16, 40, 40).channels_last());
  return row;
}

Cases with_residual() {
  return {{in(4, 3), in(3), in(3), in(4, 3)},
          {in(2, 3, 4, 5), in(3), in(3), in(2, 3, 4, 5).narrowed()},
          {in(3, 2, 2, 2).channels_last(), in(2), in(2), in(3, 2, 2, 2).channels_last()},
          {in(2, 8, 3, 3).channels_last(), in(8), in(8).spaced(), in(2, 8, 3, 3)},
          {in(5, 3).transposed(), in(3).spaced(), in(3), in(5, 3).expanded()},
          {in(4, 0), in(0), in(0), in(4, 0)},
          {in(2, 1, 3, 2), in(1), in(1), in(2, 1, 3, 2)},
          {in(2, 3, 4), in(3), in(3), in(2, 3, 4).transposed()}};
}

Cases without_residual() {
  Cases cases = with_residual();
  for (Case& inputs : cases) inputs.pop_back();
  return cases;
}

}  // namespace

/// Replaces the row's large inputs by images that a cluster of blocks on a GPU holds.
OpRow held(OpRow row) {
  for (Input& input : row.large) input = input.shape.size() > 1 ? in(12, 32, 17, 20).channels_last() : in(32);
  return row;
}

/// What two ops take gives batch norm its gradient in two parts.
OpRow taken_twice(OpRow row) {
  row.f = [f = row.f](X x) {
    const Tensor y = f(x);
    return y * 3 + y * y;
  };
  row.reference = [reference = row.reference](A x) {
    Array y = reference(x);
    for (double& v : y.values) v = v * 3 + v * v;
    return y;
  };
  row.variant += "_taken_twice";
  return row;
}

std::vector<OpRow> batch_norm_rows() {
  return {
      norm_row(
          "training", true,
          {{in(4, 3), in(3), in(3)},
           {in(2, 3, 4, 5), in(3), in(3)},
           {in(3, 2, 2, 2).channels_last(), in(2), in(2)},
           {in(5, 3).transposed(), in(3).spaced(), in(3)},
           {in(3, 4).narrowed(), in(4), in(4).expanded()},
           {in(4, 0), in(0), in(0)},
           {in(2, 1, 3, 2), in(1), in(1)},
           {in(3, 2, 5), in(2), in(2)},
           {in(4, 5, 3).transposed(), in(5), in(5)}},
          {bad<ValueError>("training needs more than one value a channel, got f64(1, 3)", {in(1, 3), in(3), in(3)}),
           bad<ShapeError>("expected a weight for each of the 3 channels of f64(2, 3)", {in(2, 3), in(4), in(3)}),
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
      fused_row("relu", true, Activation::relu, without_residual(), {}),
      fused_row("relu_evaluating", false, Activation::relu, without_residual(), {}),
      fused_row("gelu", true, Activation::gelu_tanh, without_residual(), {}),
      fused_row("gelu_evaluating", false, Activation::gelu_tanh, without_residual(), {}),
      taken_twice(fused_row("gelu", true, Activation::gelu_tanh, without_residual(), {})),
      fused_row("residual_gelu", true, Activation::gelu_tanh, with_residual(), {}),
      held(fused_row("residual", true, Activation::none, with_residual(), {})),
      fused_row("residual_relu_evaluating", false, Activation::relu, with_residual(), {}),
      held(taken_twice(fused_row("residual_relu", true, Activation::relu, with_residual(), {}))),
      fused_row("residual_relu", true, Activation::relu, with_residual(),
                {bad<ShapeError>("expected a residual of the shape of f64(2, 3)", {in(2, 3), in(3), in(3), in(3)}),
                 bad<DTypeError>("inputs of different dtypes", {in(2, 3), in(3), in(3), in(2, 3).as(DType::f32)}),
                 bad<DeviceError>("inputs on different devices", {in(2, 3), in(3), in(3), in(2, 3).elsewhere()}),
                 bad<ValueError>("expected no activation, relu or gelu_tanh, got an unknown activation", {in(2, 3)},
                                 [](X x) { return batch_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, Activation(99)); }),
                 bad<DTypeError>("expected num_batches_tracked in i64, got f64", {in(2, 3), in()},
                                 [](X x) {
                                   return batch_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, Activation::none, {}, x[1]);
                                 })}),
  };
}

}  // namespace bytetape::test
