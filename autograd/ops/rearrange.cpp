#include "bytetape/autograd/ops/rearrange.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/copy.h"

namespace bytetape {

using enum AttributeType;

namespace {

/// Returns the view that begins `elements` after v.
template <class V>
V moved(const V& v, std::int64_t elements) {
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(v.dtype));
  return V(v.template as<char>() + bytes, v.dtype, v.device, v.shape, v.strides);
}

void copy(const ConstView& x, const View& y) { run<&CopyKernels::copy>(y.device, x, y); }

}  // namespace

struct FlipBackward final : Node {
  Dims dims;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = flip(gy[0], dims); }
};
constexpr OpDefinition flip_op{.name = "flip", .attributes = {{"dims", integers}}, .family = Family::copy};
Tensor flip(const Tensor& x, const Dims& dims) {
  const Op<flip_op> op(x, dims);
  check_defined(x);
  const Dims flipped = dims.empty() ? dims : wrap_dims(dims, x.shape());
  Tensor y = empty_like(x);
  ConstView from = x.read();
  for (const std::int64_t d : flipped) {
    const int i = static_cast<int>(d);
    if (x.numel() == 0 || x.rank() == 0) break;
    from = moved(from, (from.shape[i] - 1) * from.strides[i]);
    from.strides[i] = -from.strides[i];
  }
  copy(from, y.write());
  if (auto* node = record<FlipBackward>(y, x)) node->dims = dims;
  return y;
}

namespace {

/// Copies x to y, shifted along the dims from d on. Each dim consists of two parts that change places.
void roll_into(ConstView x, View y, const Dims& shifts, int d) {
  while (d < shifts.size() && shifts[d] == 0) ++d;
  if (d == shifts.size()) return copy(x, y);
  const std::int64_t end = x.shape[d] - shifts[d];
  x.shape[d] = y.shape[d] = end;
  roll_into(x, moved(y, shifts[d] * y.strides[d]), shifts, d + 1);
  x.shape[d] = y.shape[d] = shifts[d];
  roll_into(moved(x, end * x.strides[d]), y, shifts, d + 1);
}

}  // namespace

struct RollBackward final : Node {
  Dims shifts, dims;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = roll(gy[0], shifts, dims); }
};
constexpr OpDefinition roll_op{
    .name = "roll", .attributes = {{"shifts", integers}, {"dims", integers}}, .family = Family::copy};
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  const Op<roll_op> op(x, shifts, dims);
  check_defined(x);
  check(shifts.size() == (dims.empty() ? 1 : dims.size()), "expected a shift for each dim, or one without dims, got ",
        shifts, " for ", dims);
  if (dims.empty() && x.rank() != 1) return op.composed(reshape(roll(reshape(x, x.numel()), shifts, 0), x.shape()));
  Dims by_dim = Dims::filled(x.rank(), 0), inverse = shifts;
  for (int i = 0; i < shifts.size(); ++i) {
    const int d = wrap_dim(dims.empty() ? 0 : dims[i], x.shape());
    const std::int64_t n = x.rank() > 0 ? std::max<std::int64_t>(x.shape()[d], 1) : 1;
    inverse[i] = -(shifts[i] % n);
    if (x.rank() > 0) by_dim[d] = (by_dim[d] - inverse[i] + n) % n;
  }
  Tensor y = empty_like(x);
  if (x.numel() > 0) roll_into(x.read(), y.write(), by_dim, 0);
  if (auto* node = record<RollBackward>(y, x)) {
    node->shifts = inverse;
    node->dims = dims;
  }
  return y;
}

namespace {

/// A dim of a copy: its size, and the steps from element to element in x and y.
struct Axis {
  std::int64_t size, from, to;
};

/// Copies x to y along the axes. Axes beyond the rank of a tensor are loops of copies.
void copy_axes(ConstView x, View y, std::vector<Axis> axes) {
  if (axes.size() > max_rank) {
    const auto shortest = std::min_element(axes.begin(), axes.end(), [](auto& a, auto& b) { return a.size < b.size; });
    const Axis loop = *shortest;
    axes.erase(shortest);
    for (std::int64_t i = 0; i < loop.size; ++i) copy_axes(moved(x, i * loop.from), moved(y, i * loop.to), axes);
    return;
  }
  x.shape = x.strides = y.shape = y.strides = Dims();
  for (const Axis& a : axes) {
    x.shape.push_back(a.size), x.strides.push_back(a.from);
    y.shape.push_back(a.size), y.strides.push_back(a.to);
  }
  copy(x, y);
}

}  // namespace

struct RepeatBackward final : Node {
  Shape shape;
  Dims repeats;
  /// Sums over the repeats of one dim after the other.
  void backward(const Grads& gy, InputGrads& gx) override {
    Tensor g = gy[0];
    if (g.numel() == 0) {
      gx[0] = zeros(shape, g.dtype(), g.device());
      return;
    }
    const int added = repeats.size() - shape.size();
    std::int64_t before = 1;
    for (int d = 0; d < repeats.size(); ++d) {
      if (repeats[d] != 1) g = sum(reshape(g, {before, repeats[d], g.numel() / (before * repeats[d])}), 1);
      if (d >= added) before *= shape[d - added];
    }
    gx[0] = reshape(g, shape);
  }
};
constexpr OpDefinition repeat_op{.name = "repeat", .attributes = {{"repeats", integers}}, .family = Family::copy};
Tensor repeat(const Tensor& x, const Dims& repeats) {
  const Op<repeat_op> op(x, repeats);
  check_defined(x);
  const int added = repeats.size() - x.rank();
  bool fits = added >= 0;
  for (const std::int64_t r : repeats) fits = fits && r >= 0;
  check(fits, "expected a number that is not negative for each dim of ", describe(x), ", got ", repeats);
  Shape shape = repeats;
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t r = repeats[added + d], n = x.shape()[d];
    check(n == 0 || r <= std::numeric_limits<std::int64_t>::max() / n, "too many repeats: ", repeats);
    shape[added + d] = r * n;
  }
  Tensor y = empty(shape, x.dtype(), x.device());
  std::vector<Axis> axes;
  for (int d = 0; d < shape.size(); ++d) {
    const std::int64_t n = d < added ? 1 : x.shape()[d - added], step = y.strides()[d];
    if (repeats[d] != 1) axes.push_back({repeats[d], 0, n * step});
    if (n != 1) axes.push_back({n, x.strides()[d - added], step});
  }
  if (y.numel() > 0) copy_axes(x.read(), y.write(), std::move(axes));
  if (auto* node = record<RepeatBackward>(y, x)) {
    node->shape = x.shape();
    node->repeats = repeats;
  }
  return y;
}

}  // namespace bytetape
