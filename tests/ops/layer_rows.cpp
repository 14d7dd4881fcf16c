#include "bytetape/core/factories.h"
#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// 2 channels a group come in, 3 go out, through kernels of k x k.
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
  std::vector<BadInput> bads{bad<ShapeError>(" weight f64(4, 7, 3, 3)", {in(2, 3, 9, 9), in(4, 7, 3, 3), in(4)}),
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
          large,
          false};  // oneDNN cuts the batch by threads where it sums gradients of weights
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
  const auto constant = [](const Tensor& x, double v) {
    return full({x.size(1)}, v, is_floating(x.dtype()) ? x.dtype() : DType::f64, x.device());
  };
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
          Gradients::twice,
          1,
          true,
          {in(700, 200), in(700).classes()}};
}

Conv2dParams geometry(std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
  return {{stride, stride}, {padding, padding}, {dilation, dilation}, groups};
}

}  // namespace

std::vector<OpRow> layer_rows() {
  return {
      conv_row("", {}),
      conv_row("same", geometry(1, 1, 1, 1)),
      conv_row("strided", geometry(2, 1, 1, 1)),
      conv_row("dilated", geometry(1, 2, 2, 1)),
      conv_row("grouped", geometry(2, 1, 1, 3)),
      conv_row("pointwise", {}, 1),
      conv_row("oblong", {.stride = {1, 2}, .padding = {0, 2}, .dilation = {2, 1}}),
      conv_row("no_bias", geometry(1, 1, 1, 1), 3, false),
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
      loss_row("", {}),
      loss_row("sum", {.reduction = Reduction::sum}),
      loss_row("none", {.reduction = Reduction::none}),
      loss_row("smoothed", {.label_smoothing = 0.2}),
  };
}

}  // namespace bytetape::test
