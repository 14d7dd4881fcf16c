#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

// Weights of classes are drawn as integers: they get no gradient.
Tensor weight_of(X x) { return x.size() > 2 && x[2].defined() ? to(x[2], x[0].dtype()) * 0.5 + 0.5 : Tensor(); }
std::vector<Array> weight_of(A x) {
  if (x.size() < 3) return {};
  Array w = x[2];
  for (double& v : w.values) v = v * 0.5 + 0.5;
  return {w};
}
const Array* if_any(const std::vector<Array>& weight) { return weight.empty() ? nullptr : weight.data(); }

Case with_weight(Case inputs) {
  inputs.push_back(in(inputs[0].shape[1]).examples());
  return inputs;
}
Cases with_weights(Cases cases) {
  for (Case& inputs : cases) inputs = with_weight(inputs);
  return cases;
}

const Cases rows_of_classes{{in(1, 3), in(1).classes()},
                            {in(5, 4), in(5).classes()},
                            {in(4, 3).transposed(), in(4).classes()},
                            {in(3, 5).narrowed(), in(3).classes()},
                            {in(4, 3).expanded(), in(4).classes().spaced()},
                            {in(6, 3).spaced(), in(6).classes()},
                            {in(0, 3), in(0).classes()}};
const Cases images_of_classes{{in(2, 3, 4), in(2, 4).classes()},
                              {in(2, 4, 3, 2).channels_last(), in(2, 3, 2).classes()},
                              {in(1, 3, 2, 3), in(1, 2, 3).classes().spaced()},
                              {in(2, 3, 2, 3).transposed(), in(2, 2, 3).classes()},
                              {in(2, 3, 2, 2).expanded(), in(2, 2, 2).classes()},
                              {in(2, 3, 0, 2), in(2, 0, 2).classes()}};
const Cases probabilities{{in(1, 3), in(1, 3)},
                          {in(5, 4), in(5, 4)},
                          {in(4, 3).transposed(), in(4, 3)},
                          {in(4, 3).expanded(), in(4, 3).spaced()},
                          {in(2, 3, 2, 2).channels_last(), in(2, 3, 2, 2)},
                          {in(2, 3, 2), in(2, 3, 2).narrowed()}};
const Case large_rows{in(700, 200), in(700).classes()}, large_images{in(5, 20, 30, 31), in(5, 30, 31).classes()};

std::vector<BadInput> bad_classes(const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& of_weight) {
  const auto weighted = [=](X x) { return of_weight(x[0], x[1], x[2]); };
  return {
      bad<ShapeError>("expected logits (n, c) and target (n)", {in(4, 3), in(5).classes()}),
      bad<ShapeError>("or logits (n, c, d1, ...) and target (n, d1, ...)", {in(4, 3, 2, 2), in(4, 2).classes()}),
      bad<DTypeError>("class indices (i64), got f64(4,)", {in(4, 3), in(4)}),
      bad<DTypeError>("floating", {in(4, 3).as(DType::i64), in(4).classes()}),
      bad<DeviceError>("different devices", {in(4, 3), in(4).classes().elsewhere()}),
      bad<ShapeError>("a weight for each of the 3 classes", {in(4, 3), in(4).classes(), in(4)}, weighted),
      bad<DTypeError>("weight must have the dtype of x", {in(4, 3), in(4).classes(), in(3).as(DType::f32)}, weighted),
      bad<DeviceError>("weight is on another device", {in(4, 3), in(4).classes(), in(3).elsewhere()}, weighted),
      bad<AutogradError>("requires grad, but gets none", {in(4, 3), in(4).classes(), in(3)}, weighted),
      needs_data(bad<ValueError>("is not in [0, 1)", {in(64, 1), in(64).classes()}))};
}

OpRow cross_entropy_row(const std::string& variant, const CrossEntropyOptions& options, const Cases& cases,
                        const Case& large) {
  const auto of_weight = [=](const Tensor& x, const Tensor& target, const Tensor& weight) {
    CrossEntropyOptions weighted = options;
    weighted.weight = weight;
    return cross_entropy(x, target, weighted);
  };
  const auto of_smoothing = [](X x) { return cross_entropy(x[0], x[1], {.label_smoothing = 1.5}); };
  return {"cross_entropy",
          variant,
          [=](X x) { return of_weight(x[0], x[1], weight_of(x)); },
          [=](A x) {
            const auto weight = weight_of(x);
            return ref::nll_loss(ref::log_softmax(x[0], 1), x[1], if_any(weight), options);
          },
          cases,
          Draw::normal,
          bad_classes(of_weight) + std::vector{bad<ValueError>("label_smoothing must be in [0, 1], got 1.5",
                                                               {in(4, 3), in(4).classes()}, of_smoothing)},
          Gradients::twice,
          1,
          true,
          large};
}

OpRow soft_row(const std::string& variant, const CrossEntropyOptions& options, const Cases& cases, const Case& large) {
  const auto f = [=](X x) {
    CrossEntropyOptions weighted = options;
    weighted.weight = weight_of(x);
    return cross_entropy(x[0], x[1], weighted);
  };
  const auto of_ignored = [](X x) { return cross_entropy(x[0], x[1], {.ignore_index = 1}); };
  return {"cross_entropy",
          "probabilities_" + variant,
          f,
          [=](A x) {
            const auto weight = weight_of(x);
            return ref::soft_cross_entropy(x[0], x[1], if_any(weight), options);
          },
          cases,
          Draw::positive,
          {bad<ValueError>("the target holds probabilities", {in(4, 3), in(4, 3)}, of_ignored),
           bad<DTypeError>("target must have the dtype of x", {in(4, 3), in(4, 3).as(DType::f32)}),
           bad<DTypeError>("one of probabilities would have the shape of the logits", {in(4, 3), in(3, 4)}),
           bad<ShapeError>("expected logits (c), (n, c)", {in(), in()})},
          Gradients::twice,
          2,
          options.reduction != Reduction::mean,
          large};
}

OpRow nll_row(const std::string& variant, Reduction reduction, const Cases& cases, const Case& large) {
  const auto of_weight = [=](const Tensor& x, const Tensor& target, const Tensor& weight) {
    return nll_loss(x, target, {.weight = weight, .reduction = reduction});
  };
  return {"nll_loss",
          variant,
          [=](X x) { return of_weight(x[0], x[1], weight_of(x)); },
          [=](A x) {
            const auto weight = weight_of(x);
            return ref::nll_loss(x[0], x[1], if_any(weight), {.reduction = reduction});
          },
          cases,
          Draw::normal,
          bad_classes(of_weight),
          Gradients::twice,
          1,
          true,
          large};
}

OpRow linear_row(const std::string& variant, const LinearCrossEntropyOptions& options, const Cases& cases) {
  const auto with = [](const LinearCrossEntropyOptions& o) -> Function {
    return [o](X x) { return linear_cross_entropy(x[0], x[1], x[2], o); };
  };
  return {.op = "linear_cross_entropy",
          .variant = variant,
          .f = with(options),
          .reference =
              [=](A x) {
                const std::int64_t rows = x[2].shape.empty() ? 1 : numel(x[2].shape), features = x[1].size(1);
                const Array flat_x({rows, features}, x[0].values), target({rows}, x[2].values);
                const Array logits = ref::matmul(flat_x, ref::transpose(x[1]));
                return ref::nll_loss(ref::log_softmax(logits, 1), target, nullptr,
                                     {.reduction = options.reduction, .ignore_index = options.ignore_index});
              },
          .cases = cases,
          .bad = {bad<DTypeError>("inputs of different dtypes", {in(4, 3), in(5, 3).as(DType::f32), in(4).classes()}),
                  bad<DTypeError>("expected a floating dtype",
                                  {in(4, 3).as(DType::i64), in(5, 3).as(DType::i64), in(4).classes()}),
                  bad<DTypeError>("expected a target of class indices (i64), got f64(4,)", {in(4, 3), in(5, 3), in(4)}),
                  bad<DeviceError>("inputs on different devices", {in(4, 3), in(5, 3).elsewhere(), in(4).classes()}),
                  bad<DeviceError>("inputs on different devices", {in(4, 3), in(5, 3), in(4).classes().elsewhere()}),
                  bad<ShapeError>("expected x (..., features) and a weight (classes, features)",
                                  {in(4, 3), in(5, 2), in(4).classes()}),
                  bad<ShapeError>("expected x (..., features) and a weight (classes, features)",
                                  {in(4, 3), in(5, 3, 2), in(4).classes()}),
                  bad<ShapeError>("expected x (..., features) and a weight (classes, features)",
                                  {in(), in(5, 3), in().classes()}),
                  bad<ShapeError>("expected a target for each row of f64(4, 3)", {in(4, 3), in(5, 3), in(5).classes()}),
                  bad<ValueError>("the target is an undefined tensor", {in(4, 3), in(5, 3), undefined}),
                  bad<ValueError>("chunks must not be negative, got -1", {in(4, 3), in(5, 3), in(4).classes()},
                                  with({.chunks = -1})),
                  bad<ValueError>("the reduction must be mean or sum", {in(4, 3), in(5, 3), in(4).classes()},
                                  with({.reduction = Reduction::none})),
                  needs_data(bad<ValueError>("is not in [0, 2)", {in(64, 3), in(2, 3), in(64).classes()}))},
          .has_empty_case = options.reduction == Reduction::sum,
          .large = {in(300, 70), in(200, 70), in(300).classes()}};
}

const Cases linear_cases{{in(1, 3), in(4, 3), in(1).classes()},
                         {in(7, 3), in(5, 3), in(7).classes()},
                         {in(2, 3, 4), in(3, 4), in(2, 3).classes()},
                         {in(6, 3).transposed(), in(5, 3).transposed(), in(6).classes().spaced()},
                         {in(5, 4).narrowed(), in(4, 4).spaced(), in(5).classes()},
                         {in(5, 3).expanded(), in(4, 3).narrowed(), in(5).classes()}};
const Case no_rows{in(0, 3), in(4, 3), in(0).classes()};  // of which the mean is NaN

}  // namespace

std::vector<OpRow> loss_rows() {
  const Cases weighted = with_weights(rows_of_classes), weighted_images = with_weights(images_of_classes);
  // The mean of nothing is NaN.
  const Cases maybe_none = probabilities + Case{in(0, 3), in(0, 3)};
  const CrossEntropyOptions smoothed{.label_smoothing = 0.2}, each{.reduction = Reduction::none};
  const CrossEntropyOptions total{.reduction = Reduction::sum},
      smoothed_each{.reduction = Reduction::none, .label_smoothing = 1};
  return {
      cross_entropy_row("", {}, rows_of_classes, large_rows),
      cross_entropy_row("sum", total, rows_of_classes, large_rows),
      cross_entropy_row("none", each, rows_of_classes, large_rows),
      cross_entropy_row("smoothed", smoothed, rows_of_classes, large_rows),
      cross_entropy_row("smoothed_none", smoothed_each, rows_of_classes, large_rows),
      cross_entropy_row("weighted", {}, weighted, with_weight(large_rows)),
      cross_entropy_row("weighted_smoothed", smoothed, weighted, with_weight({in(3, 1500), in(3).classes()})),
      cross_entropy_row("images", smoothed, images_of_classes, large_images),
      cross_entropy_row("weighted_images_none", each, weighted_images, with_weight(large_images)),
      soft_row("mean", {}, probabilities, {in(700, 100), in(700, 100)}),
      soft_row("weighted_none", smoothed_each, with_weights(maybe_none),
               with_weight({in(3, 20, 30, 31), in(3, 20, 30, 31)})),
      soft_row("weighted_sum", {.reduction = Reduction::sum, .label_smoothing = 0.3}, with_weights(maybe_none),
               with_weight({in(700, 100), in(700, 100)})),
      linear_row("", {}, linear_cases),
      linear_row("sum_of_chunks", {.reduction = Reduction::sum, .chunks = 3}, linear_cases + no_rows),
      linear_row("chunk_for_each", {.chunks = 100}, linear_cases),
      nll_row("", Reduction::mean, rows_of_classes, large_rows),
      nll_row("weighted", Reduction::mean, weighted, with_weight({in(9000, 5), in(9000).classes()})),
      nll_row("weighted_images_none", Reduction::none, weighted_images, with_weight(large_images)),
      nll_row("images_sum", Reduction::sum, images_of_classes, large_images),
  };
}

}  // namespace bytetape::test
