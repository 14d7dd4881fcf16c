#include "bytetape/autograd/ops/pad.h"

#include <algorithm>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/indexing.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/pad.h"

namespace bytetape {

using enum AttributeType;

namespace {

/// The number of elements to add at the start and the end of each dim.
struct Padding {
  Dims before, after;

  Padding(const Tensor& x, const std::vector<std::int64_t>& numbers)
      : before(Dims::filled(x.rank(), 0)), after(before) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    check(count % 2 == 0 && count <= 2 * x.rank(), "expected padding with two numbers per dim for at most ", x.rank(),
          " dims of ", describe(x), ", got ", count, " numbers");
    for (int i = 0; 2 * i < count; ++i) {
      const int d = x.rank() - 1 - i;
      before[d] = numbers[static_cast<std::size_t>(2 * i)];
      after[d] = numbers[static_cast<std::size_t>(2 * i + 1)];
      constexpr std::int64_t most = std::int64_t{1} << 60;  // sums with it cannot overflow
      const std::int64_t low = std::min(before[d], after[d]), high = std::max(before[d], after[d]);
      const auto keeps_some = [&] {
        return x.size(d) + std::min<std::int64_t>(low, 0) + std::min<std::int64_t>(high, 0) >= 0;
      };
      check(low >= -most && high <= most && keeps_some(), "padding must not crop more than dim ", d, " of ",
            describe(x), " has, nor exceed 2^60, got ", before[d], " and ", after[d]);
    }
  }
};

/// Returns the source index of each element of a padded dim of size n.
Tensor source_index(std::int64_t n, std::int64_t before, std::int64_t after, PadMode mode, Device device) {
  const Tensor at = arange(-before, n + after, 1, DType::i64, device);
  if (mode == PadMode::replicate) return clamp(at, 0, n - 1);
  return (n - 1) - abs((n - 1) - abs(at));
}

void check_sources(const Tensor& x, const Padding& padding, PadMode mode) {
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t most = std::max(padding.before[d], padding.after[d]), n = x.size(d);
    if (most <= 0) continue;
    check(mode != PadMode::reflect || most < n, "reflect can add fewer elements than dim ", d, " of ", describe(x),
          " has, got ", most);
    check(n > 0, "replicate cannot pad an empty dim, got dim ", d, " of ", describe(x));
  }
}

Tensor pad_by_index(const Tensor& x, const Padding& padding, PadMode mode) {
  check_sources(x, padding, mode);
  Tensor y = x;
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t before = padding.before[d], after = padding.after[d], n = x.size(d);
    if (before > 0 || after > 0)
      y = index_select(y, d, source_index(n, before, after, mode, x.device()));
    else if (before < 0 || after < 0)
      y = narrow(y, d, -before, n + before + after);
  }
  return y;
}

Tensor pad_by_value(const Tensor& x, const Padding& padding, Scalar value) {
  Tensor inner = x;
  Dims start = padding.before;
  Shape shape = x.shape();
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t before = padding.before[d], after = padding.after[d], first = std::max<std::int64_t>(-before, 0),
                       last = x.size(d) + std::min<std::int64_t>(after, 0);
    start[d] = std::max<std::int64_t>(before, 0);
    shape[d] += before + after;
    if (before < 0 || after < 0) inner = narrow(inner, d, first, last - first);
  }
  return inner.shape() == shape ? inner : detail::place(inner, shape, start, value);
}

}  // namespace

struct PlaceBackward final : Node {
  Shape shape;
  Dims start;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = gy[0];
    for (int d = 0; d < shape.size(); ++d)
      if (gy[0].size(d) != shape[d]) gx[0] = narrow(gx[0], d, start[d], shape[d]);
  }
};
constexpr OpDefinition place_op{.name = "place",
                                .attributes = {{"shape", integers}, {"start", integers}, {"value", number}},
                                .family = Family::pad};
Tensor detail::place(const Tensor& x, const Shape& shape, const Dims& start, Scalar value) {
  const Op<place_op> op(x, shape, start, value);
  Tensor y = empty(shape, suggest_memory_format(x), x.dtype(), x.device());
  run<&PadKernels::pad>(x.device(), PadArgs{x.read(), start, value, y.write()});
  if (auto* node = record<PlaceBackward>(y, x)) {
    node->shape = x.shape();
    node->start = start;
  }
  return y;
}

struct TriangleBackward final : Node {
  std::int64_t diagonal = 0;
  bool is_upper = false;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = is_upper ? triu(gy[0], diagonal) : tril(gy[0], diagonal);
  }
};
/// Returns the elements of x on one side of a diagonal, and 0 elsewhere.
static Tensor triangle(const Tensor& x, std::int64_t diagonal, bool is_upper) {
  check_defined(x);
  check(x.rank() >= 2, "expected matrices (..., m, n), got ", describe(x));
  Tensor y = empty_like(x);
  run<&PadKernels::triangle>(x.device(), TriangleArgs{x.read(), diagonal, is_upper, y.write()});
  if (auto* node = record<TriangleBackward>(y, x)) {
    node->diagonal = diagonal;
    node->is_upper = is_upper;
  }
  return y;
}
constexpr OpDefinition tril_op{.name = "tril", .attributes = {{"diagonal", integer}}, .family = Family::pad};
Tensor tril(const Tensor& x, std::int64_t diagonal) {
  const Op<tril_op> op(x, diagonal);
  return triangle(x, diagonal, false);
}
constexpr OpDefinition triu_op{.name = "triu", .attributes = {{"diagonal", integer}}, .family = Family::pad};
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  const Op<triu_op> op(x, diagonal);
  return triangle(x, diagonal, true);
}

constexpr OpDefinition pad_op{
    .name = "pad", .attributes = {{"padding", integers}, {"mode", text}, {"value", number}}, .kind = OpKind::composite};
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& numbers, PadMode mode, Scalar value) {
  const Op<pad_op> op(x, numbers, mode, value);
  check_defined(x);
  const Padding padding(x, numbers);
  if (mode != PadMode::constant) return op.result(pad_by_index(x, padding, mode));
  check<DTypeError>(fits(value, x.dtype()), x.dtype(), " cannot represent the number ", value, ", got ", describe(x));
  return op.result(pad_by_value(x, padding, value));
}

}  // namespace bytetape
