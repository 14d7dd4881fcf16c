#include "bytetape/autograd/ops/view.h"

#include <algorithm>
#include <optional>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pad.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/walk.h"

namespace bytetape {

using enum AttributeType;

namespace {

Tensor share(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset) {
  Tensor y = x.alias(shape, strides, offset);
  y.impl()->is_view = true;
  return y;
}

// Returns `shape` with a size in place of -1.
Shape complete(const Tensor& x, const Shape& shape) {
  Shape full = shape;
  int unknown = -1;
  for (int i = 0; i < shape.size(); ++i) {
    check(shape[i] >= -1, "a shape has no negative sizes, got ", shape);
    check(shape[i] >= 0 || unknown < 0, "only one size of ", shape, " can be -1");
    if (shape[i] < 0) full[unknown = i] = 1;
  }
  const std::int64_t known = numel(full);
  if (unknown >= 0 && known > 0) full[unknown] = x.numel() / known;
  check((unknown < 0 || known > 0) && numel(full) == x.numel(), "shape ", shape, " does not fit ", describe(x));
  return full;
}

// Returns strides that view x as `shape`. Empty if a new dim would not lie within one contiguous run of x.
std::optional<Strides> strides_as(const Tensor& x, const Shape& shape) {
  if (x.numel() <= 1) return contiguous_strides(shape);
  Walk<1> runs;
  for (int i = 0; i < x.rank(); ++i) runs.add(x.shape()[i], {x.strides()[i]});
  Strides strides = shape;
  int run = runs.shape.size() - 1;
  std::int64_t rest = runs.shape[run], step = runs.strides[0][run];
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (rest == 1 && shape[i] != 1) {
      --run;
      rest = runs.shape[run];
      step = runs.strides[0][run];
    }
    if (rest % shape[i] != 0) return std::nullopt;
    strides[i] = step;
    step *= shape[i];
    rest /= shape[i];
  }
  return strides;
}

}  // namespace

struct ViewBackward final : Node {
  Shape shape, result_shape;
  bool can_remake(const Tensor& y) const override {
    return needs(0) && edges[0].output == 0 && edges[0].node->can_remake(y);
  }
  Tensor remake() const override {
    const NoGrad no_grad;
    return reshape(edges[0].node->remade(), result_shape);
  }
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = reshape(gy[0], shape); }
};
// Returns a view of the same elements in the same order. The caller has computed the strides.
static Tensor reshaped(const Tensor& x, const Shape& shape, const Strides& strides) {
  Tensor y = share(x, shape, strides, x.storage_offset());
  if (auto* node = record<ViewBackward>(y, x)) {
    node->shape = x.shape();
    node->result_shape = shape;
  }
  return y;
}

constexpr OpDefinition view_op{.name = "view", .attributes = {{"shape", integers}}, .kind = OpKind::view};
Tensor view(const Tensor& x, const Shape& shape) {
  const Op<view_op> op(x, shape);
  check_defined(x);
  const Shape full = complete(x, shape);
  const auto strides = strides_as(x, full);
  check(strides.has_value(), describe(x), " with strides ", x.strides(), " cannot be seen as ", full,
        " without a copy; use reshape");
  return reshaped(x, full, *strides);
}

constexpr OpDefinition reshape_op{.name = "reshape", .attributes = {{"shape", integers}}, .kind = OpKind::view};
Tensor reshape(const Tensor& x, const Shape& shape) {
  const Op<reshape_op> op(x, shape);
  check_defined(x);
  const Shape full = complete(x, shape);
  if (const auto strides = strides_as(x, full)) return reshaped(x, full, *strides);
  return op.composed(reshaped(contiguous(x), full, contiguous_strides(full)));
}

constexpr OpDefinition flatten_op{
    .name = "flatten", .attributes = {{"start_dim", integer}, {"end_dim", integer}}, .kind = OpKind::composite};
Tensor flatten(const Tensor& x, std::int64_t start_dim, std::int64_t end_dim) {
  const Op<flatten_op> op(x, start_dim, end_dim);
  check_defined(x);
  const int first = wrap_dim(start_dim, x.shape()), last = wrap_dim(end_dim, x.shape());
  check(first <= last, "start_dim ", start_dim, " comes after end_dim ", end_dim, " of ", describe(x));
  Shape shape;
  for (int i = 0; i < first; ++i) shape.push_back(x.shape()[i]);
  std::int64_t joined = 1;
  for (int i = first; i <= last && i < x.rank(); ++i) joined *= x.shape()[i];
  shape.push_back(joined);
  for (int i = last + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return op.result(reshape(x, shape));
}

struct PermuteBackward final : Node {
  Dims inverse;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = permute(gy[0], inverse); }
};
static Tensor permuted(const Tensor& x, const Dims& dims) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  Dims inverse = dims;
  for (int i = 0; i < dims.size(); ++i) {
    const int from = static_cast<int>(dims[i]);
    shape[i] = x.shape()[from];
    strides[i] = x.strides()[from];
    inverse[from] = i;
  }
  Tensor y = share(x, shape, strides, x.storage_offset());
  if (auto* node = record<PermuteBackward>(y, x)) node->inverse = inverse;
  return y;
}

constexpr OpDefinition transpose_op{
    .name = "transpose", .attributes = {{"dim0", integer}, {"dim1", integer}}, .kind = OpKind::view};
Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1) {
  const Op<transpose_op> op(x, dim0, dim1);
  check_defined(x);
  const int a = wrap_dim(dim0, x.shape()), b = wrap_dim(dim1, x.shape());
  Dims dims;
  for (int i = 0; i < x.rank(); ++i) dims.push_back(i == a ? b : i == b ? a : i);
  return permuted(x, dims);
}

constexpr OpDefinition permute_op{.name = "permute", .attributes = {{"dims", integers}}, .kind = OpKind::view};
Tensor permute(const Tensor& x, const Dims& dims) {
  const Op<permute_op> op(x, dims);
  check_defined(x);
  check(dims.size() == x.rank(), "expected ", x.rank(), " dims for ", describe(x), ", got ", dims);
  Dims wrapped = dims;
  for (std::int64_t& d : wrapped) d = wrap_dim(d, x.shape());
  wrap_dims(dims, x.shape());  // throws if a dim is repeated
  return permuted(x, wrapped);
}

/// Returns zeros of `shape` with `part` at `start` of `dim`. The gradient of narrow.
static Tensor put_back(const Tensor& part, const Shape& shape, int dim, std::int64_t start) {
  Dims starts = Dims::filled(shape.size(), 0);
  starts[dim] = start;
  return detail::place(part, shape, starts);
}

struct NarrowBackward final : Node {
  Shape shape;
  int dim = 0;
  std::int64_t start = 0;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = put_back(gy[0], shape, dim, start); }
};
constexpr OpDefinition narrow_op{
    .name = "narrow", .attributes = {{"dim", integer}, {"start", integer}, {"length", integer}}, .kind = OpKind::view};
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  const Op<narrow_op> op(x, dim, start, length);
  check_defined(x);
  check(x.rank() > 0, "a scalar has no dim to narrow, got ", describe(x));
  const int d = wrap_dim(dim, x.shape());
  const std::int64_t size = x.shape()[d], from = start < 0 ? start + size : start;
  check(from >= 0 && length >= 0 && length <= size - from, length, " elements from ", start,
        " are out of range in dim ", dim, " of ", describe(x));
  Shape shape = x.shape();
  shape[d] = length;
  Tensor y = share(x, shape, x.strides(), x.storage_offset() + from * x.strides()[d]);
  if (auto* node = record<NarrowBackward>(y, x)) {
    node->shape = x.shape();
    node->dim = d;
    node->start = from;
  }
  return y;
}

struct SliceRestBackward final : Node {
  int dim = 0;
  Slice range;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = slice(gy[0], dim, range); }
};
constexpr OpDefinition slice_backward_op{
    .name = "slice_backward",
    .attributes = {{"shape", integers}, {"dim", integer}, {"start", integer}, {"stop", integer}, {"step", integer}},
    .family = Family::copy};
/// Returns zeros of `shape` with `part` in a range of `dim`. The gradient of slice with a step.
static Tensor put_back(const Tensor& part, const Shape& shape, int dim, const Slice& range) {
  const Op<slice_backward_op> op(part, shape, dim, range.start, range.stop, range.step);
  Tensor y = zeros(shape, part.dtype(), part.device());
  Strides strides = y.strides();
  const std::int64_t start = range.start * strides[dim];
  strides[dim] *= range.step;
  run<&CopyKernels::copy>(y.device(), part.read(), y.alias(part.shape(), strides, start).write());
  if (auto* node = record<SliceRestBackward>(y, part)) {
    node->dim = dim;
    node->range = range;
  }
  return y;
}

struct SliceBackward final : Node {
  Shape shape;
  int dim = 0;
  Slice range;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = range.step == 1 ? put_back(gy[0], shape, dim, range.start) : put_back(gy[0], shape, dim, range);
  }
};
constexpr OpDefinition slice_op{
    .name = "slice",
    .attributes = {{"dim", integer}, {"start", integer}, {"stop", integer}, {"step", integer}},
    .kind = OpKind::view};
Tensor slice(const Tensor& x, std::int64_t dim, const Slice& range) {
  const Op<slice_op> op(x, dim, range.start, range.stop, range.step);
  check_defined(x);
  check(x.rank() > 0, "a scalar has no dim to slice, got ", describe(x));
  check<ValueError>(range.step > 0, "the step must be positive, got ", range.step, "; flip(x, dims) reverses dims");
  const int d = wrap_dim(dim, x.shape());
  const std::int64_t size = x.shape()[d];
  const auto bound = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size); };
  const std::int64_t start = bound(range.start), stop = std::max(bound(range.stop), start),
                     length = (stop - start) / range.step + ((stop - start) % range.step != 0),
                     step = length > 1 ? range.step : 1;
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[d] = length;
  strides[d] *= step;
  Tensor y = share(x, shape, strides, x.storage_offset() + start * x.strides()[d]);
  if (auto* node = record<SliceBackward>(y, x)) {
    node->shape = x.shape();
    node->dim = d;
    node->range = Slice(start, start + length * step, step);
  }
  return y;
}

struct SelectBackward final : Node {
  Shape shape;
  int dim = 0;
  std::int64_t index = 0;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = put_back(unsqueeze(gy[0], dim), shape, dim, index);
  }
};
constexpr OpDefinition select_op{
    .name = "select", .attributes = {{"dim", integer}, {"index", integer}}, .kind = OpKind::view};
Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  const Op<select_op> op(x, dim, index);
  check_defined(x);
  check(x.rank() > 0, "a scalar has no dim to select from, got ", describe(x));
  const int d = wrap_dim(dim, x.shape());
  const std::int64_t size = x.shape()[d], at = index < 0 ? index + size : index;
  check(at >= 0 && at < size, "index ", index, " is out of range in dim ", dim, " of ", describe(x));
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(d);
  strides.erase(d);
  Tensor y = share(x, shape, strides, x.storage_offset() + at * x.strides()[d]);
  if (auto* node = record<SelectBackward>(y, x)) {
    node->shape = x.shape();
    node->dim = d;
    node->index = at;
  }
  return y;
}

struct ExpandBackward final : Node {
  Shape shape;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = sum_to(gy[0], shape); }
};
constexpr OpDefinition expand_op{.name = "expand", .attributes = {{"shape", integers}}, .kind = OpKind::view};
Tensor expand(const Tensor& x, const Shape& shape) {
  const Op<expand_op> op(x, shape);
  check_defined(x);
  const int added = shape.size() - x.rank();
  check(added >= 0, describe(x), " has more dims than ", shape);
  Shape full = shape;
  Strides strides = Dims::filled(shape.size(), 0);
  for (int i = 0; i < shape.size(); ++i) {
    const std::int64_t own = i < added ? 1 : x.shape()[i - added];
    if (shape[i] == -1 && i >= added) full[i] = own;
    check(full[i] >= 0 && (own == full[i] || own == 1), describe(x), " cannot be expanded to ", shape);
    if (i >= added && own == full[i]) strides[i] = x.strides()[i - added];
  }
  Tensor y = share(x, full, strides, x.storage_offset());
  if (auto* node = record<ExpandBackward>(y, x)) node->shape = x.shape();
  return y;
}

constexpr OpDefinition squeeze_op{.name = "squeeze", .attributes = {{"dim", integer}}, .kind = OpKind::view};
Tensor squeeze(const Tensor& x, std::int64_t dim) {
  const Op<squeeze_op> op(x, dim);
  check_defined(x);
  const int d = wrap_dim(dim, x.shape());
  Shape shape = x.shape();
  Strides strides = x.strides();
  if (x.rank() > 0 && shape[d] == 1) {
    shape.erase(d);
    strides.erase(d);
  }
  return reshaped(x, shape, strides);
}

constexpr OpDefinition squeeze_all_op{.name = "squeeze", .kind = OpKind::view};
Tensor squeeze(const Tensor& x) {
  const Op<squeeze_all_op> op(x);
  check_defined(x);
  Shape shape;
  Strides strides;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.shape()[i] == 1) continue;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  return reshaped(x, shape, strides);
}

constexpr OpDefinition unsqueeze_op{.name = "unsqueeze", .attributes = {{"dim", integer}}, .kind = OpKind::view};
Tensor unsqueeze(const Tensor& x, std::int64_t dim) {
  const Op<unsqueeze_op> op(x, dim);
  check_defined(x);
  const int d = wrap_dim(dim, x.shape(), 1);
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t step = d < x.rank() ? shape[d] * strides[d] : 1;
  shape.insert(d, 1);
  strides.insert(d, step);
  return reshaped(x, shape, strides);
}

}  // namespace bytetape
