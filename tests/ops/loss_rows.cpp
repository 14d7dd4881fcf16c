#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

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
           bad<ValueError>("label_smoothing must be in [0, 1], got 1.5", {in(4, 3), in(4).classes()},
                           [](X x) { return cross_entropy(x[0], x[1], {.label_smoothing = 1.5}); }),
           needs_data(bad<ValueError>("is not in [0, 1)", {in(64, 1), in(64).classes()}))},
          Gradients::twice,
          1,
          true,
          {in(700, 200), in(700).classes()}};
}

}  // namespace

std::vector<OpRow> loss_rows() {
  return {
      loss_row("", {}),
      loss_row("sum", {.reduction = Reduction::sum}),
      loss_row("none", {.reduction = Reduction::none}),
      loss_row("smoothed", {.label_smoothing = 0.2}),
      loss_row("smoothed_none", {.reduction = Reduction::none, .label_smoothing = 1}),
  };
}

}  // namespace bytetape::test
