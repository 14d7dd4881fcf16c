#include <algorithm>

#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// An op by its parameters, and what it should give.
using Pool = std::function<Tensor(const Tensor& x, const Pool2dParams& p)>;
using PoolReference = std::function<Array(const Array& x, const Pool2dParams& p)>;

OpRow window_row(const std::string& op, const std::string& variant, const Pool& pool, const PoolReference& reference,
                 const Pool2dParams& p, Draw draw, const Input& large) {
  return {op,
          variant,
          [=](X x) { return pool(x[0], p); },
          [=](A x) { return reference(x[0], p); },
          images,
          draw,
          {bad<DTypeError>("floating", {in(1, 1, 4, 4).as(DType::i64)}),
           bad<ShapeError>("expected x (n, c, h, w), got f64(4, 4)", {in(4, 4)}),
           bad<ShapeError>("does not fit into f64(1, 1, 1, 1)", {in(1, 1, 1, 1)},
                           [pool](X x) {
                             return pool(x[0], {{2, 2}, {2, 2}});
                           }),
           bad<ShapeError>("nothing to pool in f64(1, 1, 0, 4)", {in(1, 1, 0, 4)},
                           [pool](X x) {
                             return pool(x[0], {{2, 2}, {2, 2}, {1, 1}});
                           }),
           bad<ValueError>("strides must be below 2^31", {in(1, 1, 4, 4)},
                           [pool](X x) {
                             return pool(x[0], {{1, 1}, {std::int64_t{1} << 31, 1}});
                           }),
           bad<ValueError>("padding must be between 0 and half the kernel", {in(1, 1, 4, 4)},
                           [pool](X x) {
                             return pool(x[0], {{2, 2}, {2, 2}, {2, 2}});
                           }),
           bad<ValueError>("stride", {in(1, 1, 4, 4)},
                           [pool](X x) {
                             return pool(x[0], {{2, 2}, {0, 2}, {0, 0}});
                           })},
          Gradients::twice,
          1,
          true,
          {large}};
}

OpRow max_row(const std::string& variant, const Pool2dParams& p, const Input& large = in(4, 8, 48, 48)) {
  return window_row(
      "max_pool2d", variant, [](const Tensor& x, const Pool2dParams& q) { return max_pool2d(x, q); }, ref::max_pool2d,
      p, Draw::distinct, large);
}

OpRow max_relu_row(const std::string& variant, const Pool2dParams& p, const Input& large) {
  return window_row(
      "max_pool2d", variant, [](const Tensor& x, const Pool2dParams& q) { return max_pool2d(x, q, Activation::relu); },
      [](const Array& x, const Pool2dParams& q) {
        Array y = ref::max_pool2d(x, q);
        for (double& v : y.values) v = std::max(v, 0.0);
        return y;
      },
      p, Draw::distinct, large);
}

OpRow avg_row(const std::string& variant, const Pool2dParams& p, const Input& large = in(4, 8, 48, 48),
              bool counts = true) {
  return window_row(
      "avg_pool2d", variant, [counts](const Tensor& x, const Pool2dParams& q) { return avg_pool2d(x, q, counts); },
      [counts](const Array& x, const Pool2dParams& q) { return ref::avg_pool2d(x, q, counts); }, p, Draw::normal,
      large);
}

OpRow adaptive_row(const std::string& variant, Size2 size, const Input& large = in(4, 8, 48, 48)) {
  return {"adaptive_avg_pool2d",
          variant,
          [size](X x) { return adaptive_avg_pool2d(x[0], size); },
          [size](A x) { return ref::adaptive_avg_pool2d(x[0], size); },
          images,
          Draw::normal,
          {bad<DTypeError>("floating", {in(1, 1, 4, 4).as(DType::i64)}),
           bad<ShapeError>("expected x (n, c, h, w), got f64(4, 4)", {in(4, 4)}),
           bad<ShapeError>("nothing to average in f64(1, 1, 4, 0)", {in(1, 1, 4, 0)}),
           bad<ValueError>("output_size must be from 1 to 2147483647, got (2, 0)", {in(1, 1, 4, 4)},
                           [](X x) {
                             return adaptive_avg_pool2d(x[0], {2, 0});
                           })},
          Gradients::twice,
          1,
          true,
          {large}};
}

}  // namespace

std::vector<OpRow> pool_rows() {
  const Input uneven = in(4, 33, 29, 31).channels_last();
  return {
      max_row("", {}),
      max_row("overlapping", {{3, 3}, {2, 2}, {1, 1}}, uneven),
      max_row("oblong", {{1, 3}, {2, 1}, {0, 1}}),
      max_row("with_rest", {{3, 2}}, in(4, 16, 29, 31).channels_last()),
      max_row("with_rest_of_columns", {{1, 2}}, in(4, 16, 29, 31)),
      max_relu_row("relu", {{1, 2}}, in(4, 16, 48, 48).channels_last()),
      max_relu_row("overlapping_relu", {{2, 1}, {1, 1}, {1, 0}}, uneven),
      avg_row("", {}, in(4, 16, 48, 48).channels_last()),
      avg_row("overlapping", {{3, 3}, {2, 2}, {1, 1}}, uneven),
      avg_row("without_padding", {{3, 3}, {2, 1}, {1, 1}}, uneven, false),
      avg_row("oblong", {{1, 3}, {2, 1}, {0, 1}}),
      avg_row("with_gaps", {{1, 2}, {2, 3}, {0, 0}}),
      adaptive_row("", {2, 3}, in(4, 16, 48, 48).channels_last()),
      adaptive_row("overlapping", {3, 2}, uneven),
      adaptive_row("larger", {7, 9}),
      adaptive_row("of_one", 1),
      adaptive_row("of_a_row", {1, 4}),
  };
}

}  // namespace bytetape::test
