#include <algorithm>
#include <limits>

#include "bytetape/core/factories.h"
#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double low = -1e9;  // the float mask that many models use instead of -inf

/// The meaning of the fourth input.
enum class Mask { added, allowed, low };  // low: a bool, and `low` is added where it is false

/// Returns the weights (b, h, n, m), in plain loops. Those of a query that may attend to no key are 0.
Array weights_of(A x, const AttentionOptions& options, Mask kind) {
  const Array &q = x[0], &k = x[1];
  const std::int64_t keys = k.size(2), group = q.size(1) / k.size(1);
  const double scale = options.scale.value_or(1 / std::sqrt(std::max(static_cast<double>(q.size(3)), 1.0)));
  Array weights({q.size(0), q.size(1), q.size(2), keys});
  for_each_index({q.size(0), q.size(1), q.size(2)}, [&](const Dims& at) {
    std::vector<double> scores;
    for (std::int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < q.size(3); ++c)
        score += scale * q({at[0], at[1], at[2], c}) * k({at[0], at[1] / group, j, c});
      const double m = x.size() > 3 ? x[3]({at[0], at[1], at[2], j}) : 0;
      if (kind == Mask::added) score += m;
      if (kind == Mask::low && m == 0) score += low;
      if ((options.causal && j > at[2]) || (kind == Mask::allowed && m == 0)) score = -inf;
      scores.push_back(score);
    }
    const double largest = keys > 0 ? *std::max_element(scores.begin(), scores.end()) : -inf;
    if (largest == -inf) return;
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - largest);
    for (std::int64_t j = 0; j < keys; ++j)
      weights({at[0], at[1], at[2], j}) = std::exp(scores[static_cast<std::size_t>(j)] - largest) / sum;
  });
  return weights;
}

OpRow attention_row(const std::string& variant, const AttentionOptions& options, const Cases& cases, const Case& large,
                    Mask kind = Mask::added) {
  return {.op = "scaled_dot_product_attention",
          .variant = variant,
          .f =
              [options, kind](X x) {
                if (options.dropout > 0) manual_seed(3);
                AttentionOptions o = options;
                o.fused = options.dropout == 0;  // cuDNN's dropout mask is its own
                o.mask = if_any(x, 3);
                if (kind == Mask::low && x[0].defined())
                  o.mask = where(o.mask, zeros({}, accumulated(x[0].dtype()), x[0].device()), low);
                return scaled_dot_product_attention(x[0], x[1], x[2], o);
              },
          .reference =
              [=](A x) {
                Array weights = weights_of(x, options, kind);
                if (options.dropout > 0) weights = ref::dropout(weights, options.dropout, 3);
                const Array& v = x[2];
                const std::int64_t group = x[0].size(1) / v.size(1);
                Array y({x[0].size(0), x[0].size(1), x[0].size(2), v.size(3)});
                for_each_index(y.shape, [&](const Dims& at) {
                  for (std::int64_t j = 0; j < v.size(2); ++j)
                    y(at) += weights({at[0], at[1], at[2], j}) * v({at[0], at[1] / group, j, at[3]});
                });
                return y;
              },
          .cases = cases,
          .large = large};
}

const Cases plain{{in(1, 1, 1, 1), in(1, 1, 1, 1), in(1, 1, 1, 1)},
                  {in(2, 3, 4, 5), in(2, 3, 6, 5), in(2, 3, 6, 2)},
                  {in(2, 4, 3, 2), in(2, 2, 5, 2), in(2, 2, 5, 3)},
                  {in(1, 2, 70, 3), in(1, 1, 9, 3), in(1, 1, 9, 2)},
                  {in(2, 2, 0, 3), in(2, 2, 4, 3), in(2, 2, 4, 3)},
                  {in(2, 2, 3, 3), in(2, 2, 0, 3), in(2, 2, 0, 3)},
                  {in(0, 2, 3, 3), in(0, 2, 4, 3), in(0, 2, 4, 3)},
                  {in(1, 2, 4, 3).transposed(), in(1, 2, 3, 3).narrowed(), in(1, 2, 3, 3).spaced()},
                  {in(2, 2, 3, 4).channels_last(), in(2, 2, 3, 4).channels_last(), in(2, 2, 3, 4).channels_last()},
                  {in(1, 2, 3, 0), in(1, 2, 4, 0), in(1, 2, 4, 3)},
                  {in(2, 2, 3, 2).expanded(), in(2, 2, 3, 2).expanded(), in(2, 2, 3, 2)}};
const Case large{in(2, 3, 130, 16), in(2, 3, 300, 16), in(2, 3, 300, 8)};

OpRow plain_row() {
  OpRow row = attention_row("", {}, plain, large);
  const auto with = [](const AttentionOptions& o) -> Function {
    return [o](X x) { return scaled_dot_product_attention(x[0], x[1], x[2], o); };
  };
  const auto masked = [](X x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}); };
  const Input x = in(1, 2, 3, 4);
  row.bad = {
      bad<DTypeError>("expected a floating dtype", {x.as(DType::i64), x.as(DType::i64), x.as(DType::i64)}),
      bad<DTypeError>("inputs of different dtypes", {x, x, x.as(DType::f32)}),
      bad<DeviceError>("inputs on different devices", {x, x.elsewhere(), x}),
      bad<ValueError>("the second input is an undefined tensor", {x, undefined, x}),
      bad<ShapeError>("expected q, k and v of shape (batch, heads, tokens, head size)", {in(3, 4), in(3, 4), in(3, 4)}),
      bad<ShapeError>("expected q, k and v of shape", {in(2, 3, 4), x, x}),
      bad<ShapeError>("expected q, k and v of shape", {x, in(2, 3, 4), x}),
      bad<ShapeError>("expected q, k and v of shape", {x, x, in(2, 3, 4)}),
      bad<ShapeError>("do not fit together", {in(2, 2, 3, 4), x, x}),
      bad<ShapeError>("do not fit together", {x, in(1, 2, 3, 5), x}),
      bad<ShapeError>("do not fit together", {x, x, in(2, 2, 3, 4)}),
      bad<ShapeError>("do not fit together", {x, x, in(1, 1, 3, 4)}),
      bad<ShapeError>("do not fit together", {x, x, in(1, 2, 2, 4)}),
      bad<ShapeError>("the 0 heads of k f64(1, 0, 3, 4) on", {x, in(1, 0, 3, 4), in(1, 0, 3, 4)}),
      bad<ShapeError>("the 2 heads of k f64(1, 2, 3, 4) on", {in(1, 3, 3, 4), x, x}),
      bad<ValueError>("dropout must be in [0, 1], got 1.5", {x, x, x}, with({.dropout = 1.5})),
      bad<ValueError>("dropout must be in [0, 1], got -0.5", {x, x, x}, with({.dropout = -0.5})),
      bad<DTypeError>("expected a mask in bool", {x, x, x, in(3, 3).as(DType::i64)}, masked),
      bad<DeviceError>("the mask is on another device than q", {x, x, x, in(3, 3).elsewhere()}, masked),
      bad<ShapeError>("expected a mask that broadcasts to (1, 2, 3, 3)", {x, x, x, in(2, 3)}, masked)};
  return row;
}

/// Cases with a mask: `small` of (14, 6) scores or more dims, and `other` of (5, 5) or 5 keys. There are so many
/// queries that some almost surely attend to several keys: otherwise the gradient of q would be rounding errors.
Cases with_mask(const Input& small, const Input& other) {
  const auto like = [&](const Input& x) { return small.draw ? x.boolean() : x; };
  return {
      {in(2, 3, 14, 5), in(2, 3, 6, 5), in(2, 3, 6, 2), small},
      {in(1, 4, 5, 2), in(1, 2, 5, 2), in(1, 2, 5, 3), other},
      {in(1, 2, 2, 3), in(1, 2, 0, 3), in(1, 2, 0, 3), like(in(1, 1))},
      {in(1, 2, 12, 3).transposed(), in(1, 2, 3, 3).narrowed(), in(1, 2, 3, 3).spaced(), like(in(12, 3).transposed())},
      {in(2, 2, 12, 2).expanded(), in(2, 2, 3, 2), in(2, 2, 3, 2).transposed(), like(in(2, 1, 12, 3).spaced())},
      // Adding one number to all scores of a row changes nothing, so its gradient would be rounding errors.
      {in(1, 1, 70, 2), in(1, 1, 5, 2), in(1, 1, 5, 2), small.draw ? in(70, 1).boolean() : in(1, 5)}};
}

}  // namespace

std::vector<OpRow> attention_rows() {
  const Case big{in(1, 2, 200, 8), in(1, 2, 300, 8), in(1, 2, 300, 8), in(200, 300)};
  const Cases boolean = with_mask(in(14, 6).boolean(), in(1, 4, 5, 5).boolean());
  // Not the first case: the only score of a row has no gradient but rounding errors.
  const Cases with_keys = Cases(plain.begin() + 1, plain.end()) + Case{in(1, 1, 3, 2), in(1, 1, 3, 2), in(1, 1, 3, 1)};
  Case big_boolean = big;
  big_boolean.back() = in(200, 300).boolean();
  return {
      plain_row(),
      attention_row("causal", {.causal = true}, plain, {in(2, 2, 300, 8), in(2, 2, 300, 8), in(2, 2, 300, 8)}),
      attention_row("causal_long", {.causal = true, .scale = 0.3},
                    plain + Case{in(1, 1, 70, 2), in(1, 1, 70, 2), in(1, 1, 70, 2)},
                    {in(1, 3, 140, 8), in(1, 3, 600, 8), in(1, 3, 600, 8)}),
      attention_row("mask", {}, with_mask(in(2, 1, 14, 6), in(5)), big),
      attention_row("boolean_mask", {}, boolean, big_boolean, Mask::allowed),
      attention_row("causal_mask", {.causal = true}, with_mask(in(2, 1, 14, 6), in(5)), big),
      attention_row("causal_boolean_mask", {.causal = true}, boolean, big_boolean, Mask::allowed),
      // Scores are 0. Other scores near -1e9 are rounded, differently in each dtype.
      attention_row("low_mask", {.scale = 0}, boolean, big_boolean, Mask::low),
      attention_row("dropout", {.causal = true, .dropout = 0.3}, with_keys, large),
  };
}

}  // namespace bytetape::test
