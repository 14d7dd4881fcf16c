#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

OpRow pool_row(const std::string& variant, const Pool2dParams& p, const Input& large = in(4, 8, 48, 48)) {
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
          {large}};
}

}  // namespace

std::vector<OpRow> pool_rows() {
  return {
      pool_row("", {}),
      pool_row("overlapping", {{3, 3}, {2, 2}, {1, 1}}, in(4, 33, 29, 31).channels_last()),
      pool_row("oblong", {{1, 3}, {2, 1}, {0, 1}}),
  };
}

}  // namespace bytetape::test
