#include "bytetape/core/factories.h"
#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

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
  return {"batch_norm", variant, f, reference, cases, Draw::normal, bads, Gradients::twice, 3, true, large};
}

}  // namespace

std::vector<OpRow> norm_rows() {
  return {
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
  };
}

}  // namespace bytetape::test
