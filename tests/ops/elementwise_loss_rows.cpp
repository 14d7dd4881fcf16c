#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

Case pair_of(const Input& x, const Input& target) { return {x, target.eighths()}; }

// Between halves and eighths differences are odd eighths: no kink is near.
const Cases pairs{pair_of(in(), in()),
                  pair_of(in(7), in(7)),
                  pair_of(in(2, 3, 4), in(2, 3, 4)),
                  pair_of(in(4, 3).transposed(), in(4, 3)),
                  pair_of(in(3, 4).expanded(), in(3, 4).narrowed()),
                  pair_of(in(6).spaced(), in(6)),
                  pair_of(in(2, 3, 2, 2).channels_last(), in(2, 3, 2, 2))};
// Terms of one sign, so that sums of 16-bit ones keep their digits.
Case weighted_case(const Input& x, const Input& target, const Input& pos_weight, const Input& weight) {
  return {x, target.fractions(), pos_weight.fractions(), weight.fractions()};
}
const Cases weighted{weighted_case(in(3, 4), in(3, 4), in(4), in(3, 1)),
                     weighted_case(in(2), in(2), in(), in(2)),
                     weighted_case(in(5).spaced(), in(5), in(1), in()),
                     weighted_case(in(4, 3).transposed(), in(4, 3), in(4, 1), in(3).spaced()),
                     weighted_case(in(3, 4).expanded(), in(3, 4).narrowed(), in(4), in(3, 4)),
                     weighted_case(in(2, 3, 2, 2).channels_last(), in(2, 3, 2, 2), in(3, 1, 1), in(2, 1, 1, 1))};

Array reduced(const Array& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return Array({}, reduction == Reduction::sum ? total(losses.values) : average(losses.values));
}

/// The mean of nothing is NaN.
Cases with_none(const Cases& cases, Reduction reduction) {
  Case none = cases[0];
  for (Input& i : none) i.shape = {0, 3};
  return reduction == Reduction::mean ? cases : cases + none;
}

std::vector<BadInput> bad_targets() {
  return {bad<ShapeError>("expected a target of the shape of f64(2, 3)", {in(2, 3), in(3)}), two_dtypes, two_devices,
          no_second,
          bad<DTypeError>("expected a floating dtype, got i64(3,)", {in(3).as(DType::i64), in(3).as(DType::i64)})};
}

/// Of a loss of two numbers.
OpRow row_of(const std::string& op, Tensor (*f)(const Tensor&, const Tensor&, Reduction), Reduction reduction,
             double (*expected)(double, double)) {
  constexpr const char* variants[] = {"none", "", "sum"};
  return {op,
          variants[static_cast<int>(reduction)],
          [=](X x) { return f(x[0], x[1], reduction); },
          [=](A x) { return reduced(each(expected)(x), reduction); },
          with_none(pairs, reduction),
          Draw::halves,
          bad_targets(),
          Gradients::twice,
          1,
          reduction != Reduction::mean,
          {in(300, 401), in(300, 401).eighths()}};
}

Tensor huber(const Tensor& x, const Tensor& target, Reduction reduction) {
  return huber_loss(x, target, reduction, 0.5);
}
double huber_of(double x, double t) {
  const double d = std::abs(x - t);
  return d > 0.5 ? 0.5 * (d - 0.25) : d * d / 2;
}
double bce_of(double x, double t, double pos_weight) {
  return pos_weight * t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x));
}

OpRow bce_row(const std::string& variant, Reduction reduction, bool is_weighted) {
  const auto f = [=](X x) {
    return binary_cross_entropy_with_logits(
        x[0], x[1], {.weight = if_any(x, 3), .reduction = reduction, .pos_weight = if_any(x, 2)});
  };
  const auto reference = [=](A x) {
    Array losses(x[0].shape);
    for_each_index(x[0].shape, [&](const Dims& at) {
      losses(at) = bce_of(x[0](at), x[1](at), x.size() > 2 ? x[2](at) : 1) * (x.size() > 3 ? x[3](at) : 1);
    });
    return reduced(losses, reduction);
  };
  return {
      "binary_cross_entropy_with_logits",
      variant,
      f,
      reference,
      with_none(is_weighted ? weighted : pairs, reduction),
      Draw::normal,
      bad_targets() + std::vector{bad<ShapeError>("the pos_weight, f64(2,)", {in(2, 3), in(2, 3), in(2)}),
                                  bad<ShapeError>("the weight, f64(1, 2, 3)", {in(2, 3), in(2, 3), in(3), in(1, 2, 3)}),
                                  bad<DTypeError>("inputs of different dtypes", {in(3), in(3), in(3).as(DType::f32)})},
      Gradients::twice,
      1,
      reduction != Reduction::mean,
      is_weighted ? weighted_case(in(300, 401), in(300, 401), in(401), in(300, 1)) : Case{in(300, 401), in(300, 401)}};
}

double kl_of(double x, double t) { return t == 0 ? 0 : t * (std::log(t) - x); }
double kl_of_log_target(double x, double t) { return std::exp(t) * (t - x); }

/// Of log-probabilities and probabilities, or the logarithms of these.
OpRow kl_div_row(const std::string& variant, KlDivReduction reduction, bool log_target) {
  const auto pair_of = [=](const Input& x, const Input& target) {
    return Case{x, log_target ? target : target.fractions()};
  };
  return {.op = "kl_div",
          .variant = variant,
          .f = [=](X x) { return kl_div(x[0], x[1], reduction, log_target); },
          .reference =
              [=](A x) {
                const Array losses = each(log_target ? kl_of_log_target : kl_of)(x);
                if (reduction == KlDivReduction::none) return losses;
                const double sum = total(losses.values);
                const Shape& s = losses.shape;
                return Array({}, reduction == KlDivReduction::mean ? average(losses.values)
                                 : reduction == KlDivReduction::batchmean
                                     ? sum / static_cast<double>(s.empty() ? 1 : s[0])
                                     : sum);
              },
          .cases = {pair_of(in(), in()), pair_of(in(7), in(7)), pair_of(in(2, 3, 4), in(2, 3, 4)),
                    pair_of(in(4, 3).transposed(), in(4, 3)), pair_of(in(3, 4).expanded(), in(3, 4).narrowed()),
                    pair_of(in(6).spaced(), in(6)), pair_of(in(2, 3, 2, 2).channels_last(), in(2, 3, 2, 2))},
          .draw = Draw::normal,
          .bad = bad_targets(),
          .tolerance = 2,
          .has_empty_case = false,
          .large = pair_of(in(300, 401), in(300, 401))};
}

}  // namespace

std::vector<OpRow> elementwise_loss_rows() {
  std::vector<OpRow> rows;
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    rows.push_back(row_of("mse_loss", mse_loss, r, [](double x, double t) { return (x - t) * (x - t); }));
    rows.push_back(row_of("l1_loss", l1_loss, r, [](double x, double t) { return std::abs(x - t); }));
    rows.push_back(row_of("huber_loss", huber, r, huber_of));
  }
  rows.back().bad.push_back(bad<ValueError>("delta must be positive, got 0", {in(3), in(3)},
                                            [](X x) { return huber_loss(x[0], x[1], Reduction::mean, 0); }));
  rows.push_back(bce_row("", Reduction::mean, false));
  rows.push_back(bce_row("none", Reduction::none, false));
  rows.push_back(bce_row("weighted", Reduction::mean, true));
  rows.push_back(bce_row("weighted_sum", Reduction::sum, true));
  rows.push_back(kl_div_row("none", KlDivReduction::none, false));
  rows.push_back(kl_div_row("", KlDivReduction::mean, false));
  rows.push_back(kl_div_row("batchmean", KlDivReduction::batchmean, false));
  rows.push_back(kl_div_row("sum", KlDivReduction::sum, true));
  rows.push_back(kl_div_row("batchmean_log_target", KlDivReduction::batchmean, true));
  return rows;
}

}  // namespace bytetape::test
