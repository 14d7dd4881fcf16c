#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// What a row has besides its geometry.
struct Form {
  std::int64_t k = 3, made = 3;  // kernels of k x k; channels that a group makes ...
  std::int64_t seen = 2;         // ... of so many, ...
  std::int64_t larger = 8;       // ... and in the large case of so many times that
  bool has_bias = true;
  Activation activation = Activation::none;
  bool channels_last = false;  // x and the weight, unless a case says how they lie
};

OpRow conv_row(const std::string& variant, const Conv2dParams& p, const Form& form = {}) {
  const bool relu = form.activation == Activation::relu;
  const std::int64_t k = form.k, c = form.seen * p.groups, o = form.made * p.groups;
  const auto laid_out = [&](const Input& i) { return form.channels_last ? i.channels_last() : i; };
  const Input w = laid_out(in(o, form.seen, k, k)), b = in(o);
  Cases cases{{in(1, c, 5, 5), w, b},
              {laid_out(in(2, c, 7, 5)), w, b},
              {in(0, c, 5, 5), w, b},
              {in(2, c, 5, 6).channels_last(), w.channels_last(), b},
              {in(2, c, 5, 5).transposed(), w.transposed(), b.spaced()},
              {in(2, c, 6, 5).expanded(), w.narrowed(), b.narrowed()},
              {in(1, c, 8, 5).narrowed(), w.spaced(), b.expanded()}};
  Case large{laid_out(in(4, form.larger * c, 24, 24)), laid_out(in(4 * o, form.larger * form.seen, k, k)), in(4 * o)};
  std::vector<BadInput> bads{bad<ShapeError>(" weight f64(4, 7, 3, 3)", {in(2, 3, 9, 9), in(4, 7, 3, 3), in(4)}),
                             bad<ShapeError>("expected x (n, c, h, w) and a weight", {in(c, 5, 5), w, b}),
                             bad<ShapeError>("expected x (n, c, h, w) and a weight", {in(2, c, 9, 9), in(o, k, k), b}),
                             bad<ShapeError>("expected no dim of size 0 except the batch of x", {in(2, c, 0, 5), w, b}),
                             bad<ShapeError>("the kernel of f64", {in(2, c, 9, 9), in(o, form.seen, 20, 3), b}),
                             bad<DTypeError>("different dtypes", {in(2, c, 9, 9), w.as(DType::f32), b}),
                             bad<DTypeError>("floating", {in(2, c, 9, 9).as(DType::i64), w.as(DType::i64), b}),
                             bad<DeviceError>("different devices", {in(2, c, 9, 9), w.elsewhere(), b}),
                             bad<ValueError>("stride and dilation must be at least 1", {in(2, c, 9, 9), w, b},
                                             [](X x) {
                                               return conv2d(x[0], x[1], x[2], {.stride = {0, 1}});
                                             }),
                             bad<ValueError>("groups must be at least 1", {in(2, c, 9, 9), w, b},
                                             [](X x) { return conv2d(x[0], x[1], x[2], {.groups = 0}); })};
  if (form.has_bias) {
    bads.push_back(bad<ShapeError>("expected a bias", {in(2, c, 9, 9), w, in(o + 1)}));
    bads.push_back(bad<DTypeError>("different dtypes", {in(2, c, 9, 9), w, b.as(DType::f32)}));
  } else {
    for (Case& inputs : cases) inputs.pop_back();
    large.pop_back();
  }
  OpRow row{"conv2d",
            variant,
            [=](X x) { return conv2d(x[0], x[1], if_any(x, 2), p, form.activation); },
            [=](A x) {
              Array y = ref::conv2d(x[0], x[1], if_any(x, 2), p);
              if (relu)
                for (double& v : y.values) v = std::max(v, 0.0);
              return y;
            },
            cases,
            relu ? Draw::halves : Draw::normal,
            bads,
            Gradients::twice,
            4,
            true,
            large,
            false};  // oneDNN cuts the batch by threads where it sums gradients of weights
  if (relu) away_from_the_kink(row);
  return row;
}

/// x (n, c, l) or a weight as an image of one row.
Array as_image(Array x) {
  x.shape.insert(2, 1);
  return x;
}

OpRow conv1d_row(const std::string& variant, const Conv1dParams& p, bool has_bias) {
  const std::int64_t c = 2 * p.groups, o = 3 * p.groups;
  const Input w = in(o, 2, 3), b = in(o);
  Cases cases{{in(1, c, 7), w, b},
              {in(2, c, 9), w, b},
              {in(0, c, 7), w, b},
              {in(2, c, 8).transposed(), w.transposed(), b.spaced()},
              {in(2, c, 7).expanded(), w.narrowed(), b.narrowed()},
              {in(1, c, 8).narrowed(), w.spaced(), b.expanded()}};
  Case large{in(4, 8 * c, 200), in(4 * o, 16, 3), in(4 * o)};
  const auto refusing = [&](const std::string& words, const Conv1dParams& q) {
    return bad<ValueError>(words, {in(2, c, 9), w, b}, [q](X x) { return conv1d(x[0], x[1], x[2], q); });
  };
  std::vector<BadInput> bads{
      bad<ShapeError>(" weight f64(4, 7, 1, 3)", {in(2, 3, 9), in(4, 7, 3), in(4)}),
      bad<ShapeError>("expected x (n, c, l) and a weight (o, c / groups, k), got f64", {in(2, c, 1, 9), w, b}),
      bad<ShapeError>("expected x (n, c, l) and a weight (o, c / groups, k), got f64",
                      {in(2, c, 9), in(o, 2, 1, 3), b}),
      bad<ValueError>("the weight is an undefined tensor", {in(2, c, 9), undefined, b}),
      bad<ShapeError>("expected no dim of size 0 except the batch of x", {in(2, c, 0), w, b}),
      bad<ShapeError>("the kernel of f64", {in(2, c, 9), in(o, 2, 30), b}),
      bad<DTypeError>("different dtypes", {in(2, c, 9), w.as(DType::f32), b}),
      bad<DTypeError>("floating", {in(2, c, 9).as(DType::i64), w.as(DType::i64), b}),
      bad<DeviceError>("different devices", {in(2, c, 9), w.elsewhere(), b}),
      refusing("stride and dilation must be at least 1", {.stride = 0}),
      refusing("groups must be at least 1", {.groups = 0})};
  if (!has_bias) {
    for (Case& inputs : cases) inputs.pop_back();
    large.pop_back();
    bads.resize(1);
  }
  return {.op = "conv1d",
          .variant = variant,
          .f = [=](X x) { return conv1d(x[0], x[1], if_any(x, 2), p); },
          .reference =
              [=](A x) {
                Array y = ref::conv2d(as_image(x[0]), as_image(x[1]), if_any(x, 2),
                                      {{1, p.stride}, {0, p.padding}, {1, p.dilation}, p.groups});
                y.shape.erase(2);
                return y;
              },
          .cases = cases,
          .bad = bads,
          .tolerance = 4,
          .large = large,
          .same_on_any_threads = false};  // as of conv2d
}

Conv2dParams geometry(std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
  return {stride, padding, dilation, groups};
}

}  // namespace

std::vector<OpRow> conv_rows() {
  return {
      conv1d_row("", {}, true),
      conv1d_row("strided", {.stride = 2, .padding = 2, .dilation = 2, .groups = 2}, false),
      conv_row("", {}),
      conv_row("same", geometry(1, 1, 1, 1)),
      conv_row("strided", geometry(2, 1, 1, 1)),
      conv_row("dilated", geometry(1, 2, 2, 1)),
      conv_row("grouped", geometry(2, 1, 1, 3)),
      conv_row("pointwise", {}, {.k = 1}),
      conv_row("oblong", {.stride = {1, 2}, .padding = {0, 2}, .dilation = {2, 1}}),
      conv_row("no_bias", geometry(1, 1, 1, 1), {.has_bias = false}),
      conv_row("few_channels", {}, {.made = 4}),
      conv_row("relu", geometry(1, 1, 1, 1), {.activation = Activation::relu}),
      conv_row("grouped_relu", geometry(2, 1, 1, 3), {.activation = Activation::relu}),
      conv_row("few_channels_relu", geometry(1, 1, 1, 1), {.made = 4, .activation = Activation::relu}),
      conv_row("channels_last", geometry(2, 1, 1, 1), {.channels_last = true}),
      conv_row("channels_last_grouped", geometry(1, 1, 1, 3), {.activation = Activation::relu, .channels_last = true}),
      conv_row("channels_last_few", {}, {.made = 4, .has_bias = false, .channels_last = true}),
      conv_row("image", geometry(1, 1, 1, 1), {.made = 8, .seen = 3, .larger = 1, .channels_last = true}),
      conv_row("image_relu", {.stride = {2, 1}, .padding = {1, 2}},
               {.made = 24, .seen = 1, .larger = 1, .activation = Activation::relu, .channels_last = true}),
      conv_row("image_dilated", geometry(1, 2, 2, 1),
               {.made = 8, .seen = 3, .larger = 1, .has_bias = false, .channels_last = true}),
      conv_row("image_wide", geometry(2, 2, 1, 1), {.k = 5, .made = 8, .seen = 1, .larger = 1, .channels_last = true}),
      conv_row("image_pointwise", {},
               {.k = 1, .made = 72, .seen = 4, .larger = 1, .activation = Activation::relu, .channels_last = true}),
  };
}

}  // namespace bytetape::test
