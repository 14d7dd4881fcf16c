#include "bytetape/autograd/ops/reduce.h"

#include <algorithm>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/reduce.h"

namespace bytetape {

using enum AttributeType;

namespace {

// Shapes of a reduction's result: with the reduced dims at size 1, as kernels write it, and as the caller gets it.
struct Reduced {
  Shape kept, result;
  Reduced(const Tensor& x, const Dims& dims, bool keepdim)
      : kept(reduced_shape(x.shape(), dims, true)), result(keepdim ? kept : reduced_shape(x.shape(), dims, false)) {}
};

// y with `kept` as its shape, for a kernel to write.
View as_kept(const Tensor& y, const Shape& kept) {
  View v = y.write();
  v.shape = kept;
  v.strides = contiguous_strides(kept);
  return v;
}

std::int64_t elements_reduced(const Tensor& x, const Shape& kept) {
  std::int64_t n = 1;
  for (int i = 0; i < x.rank(); ++i)
    if (kept[i] == 1) n *= x.shape()[i];
  return n;
}

}  // namespace

struct SumBackward final : Node {
  Shape shape, kept;
  DType dtype = DType::f32;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = expand(reshape(to(gy[0], dtype), kept), shape); }
};
constexpr OpDefinition sum_op{.name = "sum",
                              .attributes = {{"dims", integers}, {"keepdim", boolean}},
                              .family = Family::reduce,
                              .autocast = AutocastClass::f32,
                              .flop = one_per_input};
Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<sum_op> op(x, dims, keepdim);
  check_defined(x);
  const Reduced shapes(x, dims, keepdim);
  const bool is_wide = autocast_enabled() && is_floating(x.dtype());
  const DType dtype = !is_floating(x.dtype()) ? DType::i64 : is_wide ? accumulated(x.dtype()) : x.dtype();
  Tensor y = empty(shapes.result, dtype, x.device());
  run_planned<&ReduceKernels::sum>(x.device(), {x.read(), as_kept(y, shapes.kept)});
  if (auto* node = record<SumBackward>(y, x)) {
    node->shape = x.shape();
    node->kept = shapes.kept;
    node->dtype = x.dtype();
  }
  return y;
}

struct MeanBackward final : Node {
  Shape shape, kept;
  std::int64_t n = 1;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = expand(reshape(gy[0] / n, kept), shape); }
};
constexpr OpDefinition mean_op{.name = "mean",
                               .attributes = {{"dims", integers}, {"keepdim", boolean}},
                               .family = Family::reduce,
                               .flop = one_per_input};
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<mean_op> op(x, dims, keepdim);
  check_floating(x);
  const Reduced shapes(x, dims, keepdim);
  const std::int64_t n = elements_reduced(x, shapes.kept);
  Tensor y = empty(shapes.result, x.dtype(), x.device());
  run_planned<&ReduceKernels::sum>(x.device(), {x.read(), as_kept(y, shapes.kept), static_cast<double>(n)});
  if (auto* node = record<MeanBackward>(y, x)) {
    node->shape = x.shape();
    node->kept = shapes.kept;
    node->n = n;
  }
  return y;
}

constexpr OpDefinition var_op{.name = "var",
                              .attributes = {{"dims", integers}, {"keepdim", boolean}, {"correction", number}},
                              .kind = OpKind::composite};
Tensor var(const Tensor& x, const Dims& dims, bool keepdim, double correction) {
  const Op<var_op> op(x, dims, keepdim, correction);
  check_floating(x);
  // Squares of 16-bit floats soon leave their range.
  if (size_of(x.dtype()) == 2) return op.result(to(var(to(x, DType::f32), dims, keepdim, correction), x.dtype()));
  const auto n = static_cast<double>(elements_reduced(x, reduced_shape(x.shape(), dims, true)));
  const Tensor centred = x - mean(x, dims, true);
  return op.result(sum(centred * centred, dims, keepdim) / std::max(0.0, n - correction));
}

/// gy / y for a root y, and 0 where that is 0: whatever is differentiated through it is 0 there too.
static Tensor over_root(const Tensor& gy, const Tensor& y) {
  const Tensor is_zero = y == 0;
  return where(is_zero, 0, gy / where(is_zero, 1, y));
}

struct StdBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = over_root(gy[0], y.get()) * 0.5; }
};
constexpr OpDefinition std_op{.name = "std",
                              .attributes = {{"dims", integers}, {"keepdim", boolean}, {"correction", number}},
                              .kind = OpKind::composite};
Tensor std(const Tensor& x, const Dims& dims, bool keepdim, double correction) {
  const Op<std_op> op(x, dims, keepdim, correction);
  check_floating(x);
  if (size_of(x.dtype()) == 2) return op.result(to(std(to(x, DType::f32), dims, keepdim, correction), x.dtype()));
  const Tensor variance = var(x, dims, keepdim, correction), y = sqrt(variance.detach());
  if (auto* node = record<StdBackward>(y, variance)) node->y.save_output(y);
  return y;
}

struct NormBackward final : Node {
  Saved x{this}, y{this};
  Shape kept;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = x.get() * over_root(reshape(gy[0], kept), reshape(y.get(), kept));
  }
};
constexpr OpDefinition norm_op{.name = "norm",
                               .attributes = {{"dims", integers}, {"keepdim", boolean}},
                               .kind = OpKind::composite,
                               .autocast = AutocastClass::f32};
Tensor norm(const Tensor& input, const Dims& dims, bool keepdim) {
  const Op<norm_op> op(input, dims, keepdim);
  const Tensor x = op.input(input);
  check_floating(x);
  if (size_of(x.dtype()) == 2) return op.result(to(norm(to(x, DType::f32), dims, keepdim), x.dtype()));
  const Tensor v = x.detach(), y = sqrt(sum(v * v, dims, keepdim));
  if (auto* node = record<NormBackward>(y, x)) {
    node->x.save(x);
    node->y.save_output(y);
    node->kept = Reduced(x, dims, keepdim).kept;
  }
  return y;
}

/// max and min: equal winners share the gradient.
struct ExtremeBackward final : Node {
  Saved x{this}, y{this};
  Shape kept;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor winners = to(x.get() == reshape(y.get(), kept), gy[0].dtype());
    Dims reduced;
    for (int i = 0; i < kept.size(); ++i)
      if (kept[i] == 1) reduced.push_back(i);
    const Tensor count = reduced.empty() ? winners : sum(winners, reduced, true);
    gx[0] = winners * (reshape(gy[0], kept) / count);
  }
};

template <auto Kernel>
Tensor extreme(const Tensor& x, const Dims& dims, bool keepdim) {
  check_defined(x);
  const Reduced shapes(x, dims, keepdim);
  check(elements_reduced(x, shapes.kept) > 0, "nothing to choose from in ", describe(x), " over dims ",
        wrap_dims(dims, x.shape()));
  Tensor y = empty(shapes.result, x.dtype(), x.device());
  run<Kernel>(x.device(), x.read(), as_kept(y, shapes.kept));
  if (auto* node = record<ExtremeBackward>(y, x)) {
    node->x.save(x);
    node->y.save_output(y);
    node->kept = shapes.kept;
  }
  return y;
}

constexpr OpDefinition max_op{.name = "max",
                              .attributes = {{"dims", integers}, {"keepdim", boolean}},
                              .family = Family::reduce,
                              .flop = one_per_input};
Tensor max(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<max_op> op(x, dims, keepdim);
  return extreme<&ReduceKernels::max>(x, dims, keepdim);
}

constexpr OpDefinition min_op{.name = "min",
                              .attributes = {{"dims", integers}, {"keepdim", boolean}},
                              .family = Family::reduce,
                              .flop = one_per_input};
Tensor min(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<min_op> op(x, dims, keepdim);
  return extreme<&ReduceKernels::min>(x, dims, keepdim);
}

constexpr OpDefinition argmax_op{.name = "argmax",
                                 .attributes = {{"dim", integer}, {"keepdim", boolean}},
                                 .family = Family::reduce,
                                 .flop = one_per_input};
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim) {
  const Op<argmax_op> op(x, dim, keepdim);
  check_defined(x);
  const int d = wrap_dim(dim, x.shape());
  if (x.rank() == 0) return op.composed(reshape(argmax(reshape(x, {1}), 0), {}));
  const Reduced shapes(x, {d}, keepdim);
  check(x.shape()[d] > 0, "nothing to choose from in dim ", dim, " of ", describe(x));
  Tensor y = empty(shapes.result, DType::i64, x.device());
  run<&ReduceKernels::argmax>(x.device(), x.read(), d, as_kept(y, shapes.kept));
  return op.result(std::move(y));
}

constexpr OpDefinition argmax_of_all_op{.name = "argmax", .kind = OpKind::composite};
Tensor argmax(const Tensor& x) {
  const Op<argmax_of_all_op> op(x);
  check_defined(x);
  check(x.numel() > 0, "nothing to choose from in ", describe(x));
  return op.result(argmax(reshape(x, {x.numel()}), 0));
}

constexpr OpDefinition sum_to_op{
    .name = "sum_to", .attributes = {{"shape", integers}}, .kind = OpKind::composite, .autocast = AutocastClass::f32};
Tensor sum_to(const Tensor& x, const Shape& shape) {
  const Op<sum_to_op> op(x, shape);
  check_defined(x);
  if (x.shape() == shape) return x;
  check(broadcasts_to(shape, x.shape()), describe(x), " is no broadcast of ", shape);
  const int added = x.rank() - shape.size();
  Dims repeated;
  for (int i = 0; i < x.rank(); ++i)
    if (i < added || (shape[i - added] == 1 && x.shape()[i] != 1)) repeated.push_back(i);
  const Tensor y = repeated.empty() ? x : sum(x, repeated, true);
  return op.result(added == 0 ? y : reshape(y, shape));
}

}  // namespace bytetape
