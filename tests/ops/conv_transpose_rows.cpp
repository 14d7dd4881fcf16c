#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// What a row has besides its geometry.
struct Form {
  std::int64_t k = 3;  // kernels of k x k
  bool has_bias = true, channels_last = false;
};

OpRow conv_transpose_row(const std::string& variant, const ConvTranspose2dParams& p, const Form& form = {}) {
  const std::int64_t seen = 2, made = 3, k = form.k, c = seen * p.groups, o = made * p.groups;
  const auto laid_out = [&](const Input& i) { return form.channels_last ? i.channels_last() : i; };
  const Input w = laid_out(in(c, made, k, k)), b = in(o);
  Cases cases{{in(1, c, 4, 4), w, b},
              {laid_out(in(2, c, 5, 3)), w, b},
              {in(0, c, 4, 4), w, b},
              {in(2, c, 3, 4).channels_last(), w.channels_last(), b},
              {in(2, c, 4, 3).transposed(), w.transposed(), b.spaced()},
              {in(2, c, 3, 3).expanded(), w.narrowed(), b.narrowed()},
              {in(1, c, 4, 3).narrowed(), w.spaced(), b.expanded()}};
  Case large{laid_out(in(4, 8 * c, 16, 16)), laid_out(in(8 * c, 4 * made, k, k)), in(4 * o)};
  const auto refusing = [&](const std::string& words, const ConvTranspose2dParams& q) {
    return bad<ValueError>(words, {in(2, c, 5, 5), w, b}, [q](X x) { return conv_transpose2d(x[0], x[1], x[2], q); });
  };
  std::vector<BadInput> bads{
      bad<ShapeError>("channels for weight f64(12, 4, 3, 3)", {in(2, 13, 9, 9), in(12, 4, 3, 3), b}),
      bad<ShapeError>("expected x (n, c, h, w) and a weight (c, o / groups, kh, kw)", {in(c, 5, 5), w, b}),
      bad<ShapeError>("expected no dim of size 0 except the batch of x", {in(2, c, 0, 5), w, b}),
      bad<DTypeError>("different dtypes", {in(2, c, 9, 9), w.as(DType::f32), b}),
      bad<DTypeError>("floating", {in(2, c, 9, 9).as(DType::i64), w.as(DType::i64), b}),
      bad<DeviceError>("different devices", {in(2, c, 9, 9), w.elsewhere(), b}),
      bad<ShapeError>("leaves nothing of what weight", {in(2, c, 1, 1), w, b},
                      [](X x) { return conv_transpose2d(x[0], x[1], {}, {.padding = 9}); }),
      refusing("stride and dilation must be at least 1", {.stride = {0, 1}}),
      refusing("padding must not be negative", {.padding = {0, -1}}),
      refusing("output_padding must be smaller than stride or dilation", {.stride = 2, .output_padding = 2}),
      refusing("groups must be at least 1", {.groups = 0}),
      bad<ShapeError>("groups do not divide", {in(2, c, 5, 5), w, b},
                      [](X x) { return conv_transpose2d(x[0], x[1], {}, {.groups = 5}); })};
  if (form.has_bias) {
    bads.push_back(bad<ShapeError>("expected a bias", {in(2, c, 9, 9), w, in(o + 1)}));
    bads.push_back(bad<DTypeError>("different dtypes", {in(2, c, 9, 9), w, b.as(DType::f32)}));
  } else {
    for (Case& inputs : cases) inputs.pop_back();
    large.pop_back();
  }
  return {"conv_transpose2d",
          variant,
          [p](X x) { return conv_transpose2d(x[0], x[1], if_any(x, 2), p); },
          [p](A x) { return ref::conv_transpose2d(x[0], x[1], if_any(x, 2), p); },
          cases,
          Draw::normal,
          bads,
          Gradients::twice,
          4,
          true,
          large,
          false};  // oneDNN cuts the batch by threads where it sums gradients of weights
}

}  // namespace

std::vector<OpRow> conv_transpose_rows() {
  return {
      conv_transpose_row("", {}),
      conv_transpose_row("strided", {.stride = 2, .padding = 1, .output_padding = 1}),
      conv_transpose_row("tiles", {.stride = 2}, {.k = 2, .channels_last = true}),
      conv_transpose_row("dilated", {.padding = 1, .dilation = 2}),
      conv_transpose_row("grouped", {.stride = 2, .padding = 1, .groups = 3}),
      conv_transpose_row("pointwise", {}, {.k = 1}),
      conv_transpose_row("oblong", {.stride = {1, 3}, .padding = {0, 2}, .output_padding = {1, 2}, .dilation = {2, 1}}),
      conv_transpose_row("far_beyond", {.padding = 2, .output_padding = 2, .dilation = 3}),
      conv_transpose_row("no_bias", {.stride = 2, .padding = 1}, {.has_bias = false}),
      conv_transpose_row("channels_last", {.stride = 2, .padding = 1, .output_padding = 1}, {.channels_last = true}),
      conv_transpose_row("channels_last_grouped", {.padding = 1, .groups = 3}, {.channels_last = true}),
  };
}

}  // namespace bytetape::test
