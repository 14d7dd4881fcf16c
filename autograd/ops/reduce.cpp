#include "bytetape/autograd/ops/reduce.h"

#include <algorithm>
#include <limits>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/reduce.h"

namespace bytetape {

using enum AttributeType;

constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {

// Shapes of a reduction's result. `kept` has the reduced dims with size 1, for kernels. `result` is for the caller.
struct Reduced {
  Shape kept, result;
  Reduced(const Tensor& x, const Dims& dims, bool keepdim)
      : kept(reduced_shape(x.shape(), dims, true)), result(keepdim ? kept : reduced_shape(x.shape(), dims, false)) {}
};

// Returns y with the shape `kept`, for a kernel to write.
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

// Runs sum or prod. The result is i64 for integers, and f32 for 16-bit floats under Autocast.
template <auto Kernel>
Tensor accumulate(const Tensor& x, const Reduced& shapes) {
  const DType dtype = !is_floating(x.dtype()) ? DType::i64 : autocast_enabled() ? accumulated(x.dtype()) : x.dtype();
  Tensor y = empty(shapes.result, dtype, x.device());
  run_planned<Kernel>(x.device(), {x.read(), as_kept(y, shapes.kept)});
  return y;
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
                              .autocast = AutocastClass::f32};
Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<sum_op> op(x, dims, keepdim);
  check_defined(x);
  const Reduced shapes(x, dims, keepdim);
  Tensor y = accumulate<&ReduceKernels::sum>(x, shapes);
  if (auto* node = record<SumBackward>(y, x)) {
    node->shape = x.shape();
    node->kept = shapes.kept;
    node->dtype = x.dtype();
  }
  return y;
}

/// Returns the gradient of prod(x, dims, true): for each element gy times the product of the others. Multiplies the
/// halves of x pairwise until one element is left, and goes back by the product rule. Without a division, zeros need no
/// special case.
static Tensor prod_grad(const Tensor& x, Dims dims, const Tensor& gy) {
  while (!dims.empty() && x.size(dims.back()) == 1) dims.erase(dims.size() - 1);
  if (dims.empty()) return gy;
  const std::int64_t d = dims.back(), half = x.size(d) / 2;
  const bool is_odd = x.size(d) % 2 == 1;
  const Tensor a = narrow(x, d, 0, half), b = narrow(x, d, half, half), pairs = a * b;
  const Tensor g = prod_grad(is_odd ? cat({pairs, narrow(x, d, 2 * half, 1)}, d) : pairs, dims, gy);
  const Tensor of_pairs = narrow(g, d, 0, half);
  std::vector<Tensor> parts{of_pairs * b, of_pairs * a};
  if (is_odd) parts.push_back(narrow(g, d, half, 1));
  return cat(parts, d);
}
struct ProdBackward final : Node {
  Saved x{this};
  Dims dims;  // reduced, in order
  Shape kept;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor v = x.get();
    const DType wide = accumulated(v.dtype());
    gx[0] =
        v.numel() == 0 ? zeros_like(v) : to(prod_grad(to(v, wide), dims, reshape(to(gy[0], wide), kept)), v.dtype());
  }
};
constexpr OpDefinition prod_op{.name = "prod",
                               .attributes = {{"dims", integers}, {"keepdim", boolean}},
                               .family = Family::reduce,
                               .autocast = AutocastClass::f32};
Tensor prod(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<prod_op> op(x, dims, keepdim);
  check_defined(x);
  const Reduced shapes(x, dims, keepdim);
  Tensor y = accumulate<&ReduceKernels::prod>(x, shapes);
  if (auto* node = record<ProdBackward>(y, x)) {
    node->x.save(x);
    node->dims = wrap_dims(dims, x.shape());
    node->kept = shapes.kept;
  }
  return y;
}

struct MeanBackward final : Node {
  Shape shape, kept;
  std::int64_t n = 1;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = expand(reshape(gy[0] / n, kept), shape); }
};
constexpr OpDefinition mean_op{
    .name = "mean", .attributes = {{"dims", integers}, {"keepdim", boolean}}, .family = Family::reduce};
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
  // Squares of 16-bit floats can overflow.
  if (size_of(x.dtype()) == 2) return op.result(to(var(to(x, DType::f32), dims, keepdim, correction), x.dtype()));
  const auto n = static_cast<double>(elements_reduced(x, reduced_shape(x.shape(), dims, true)));
  const Tensor centred = x - mean(x, dims, true);
  return op.result(sum(centred * centred, dims, keepdim) / std::max(0.0, n - correction));
}

/// Returns gy / y for a square root y, and 0 where y is 0. Higher derivatives are 0 there too.
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

struct LogSumExpBackward final : Node {
  Saved x{this}, y{this};
  Shape kept;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor top = reshape(y.get(), kept);
    // -inf - -inf is NaN. If all elements are -inf, the gradient is 0, as in PyTorch.
    gx[0] = reshape(gy[0], kept) * exp(x.get() - masked_fill(top, top == -infinity, 0));
  }
};
constexpr OpDefinition logsumexp_op{.name = "logsumexp",
                                    .attributes = {{"dims", integers}, {"keepdim", boolean}},
                                    .kind = OpKind::composite,
                                    .autocast = AutocastClass::f32};
Tensor logsumexp(const Tensor& input, const Dims& dims, bool keepdim) {
  const Op<logsumexp_op> op(input, dims, keepdim);
  const Tensor x = op.input(input);
  check_floating(x);
  if (size_of(x.dtype()) == 2) return op.result(to(logsumexp(to(x, DType::f32), dims, keepdim), x.dtype()));
  const Reduced shapes(x, dims, keepdim);
  const Tensor v = x.detach();
  Tensor y;
  if (elements_reduced(x, shapes.kept) == 0) {
    y = full(shapes.result, -infinity, x.dtype(), x.device());
  } else {
    const Tensor top = max(v, dims, true), shift = masked_fill(top, isinf(top), 0);
    y = reshape(add_(log_(sum(exp_(v - shift), dims, true)), shift), shapes.result);
  }
  if (auto* node = record<LogSumExpBackward>(y, x)) {
    node->x.save(x);
    node->y.save_output(y);
    node->kept = shapes.kept;
  }
  return y;
}

/// The rule of max and min. Equal extreme elements share the gradient evenly.
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

constexpr OpDefinition max_op{
    .name = "max", .attributes = {{"dims", integers}, {"keepdim", boolean}}, .family = Family::reduce};
Tensor max(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<max_op> op(x, dims, keepdim);
  return extreme<&ReduceKernels::max>(x, dims, keepdim);
}

constexpr OpDefinition min_op{
    .name = "min", .attributes = {{"dims", integers}, {"keepdim", boolean}}, .family = Family::reduce};
Tensor min(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<min_op> op(x, dims, keepdim);
  return extreme<&ReduceKernels::min>(x, dims, keepdim);
}

/// The indices of the extreme elements of x along a dim, and the elements if they are wanted.
struct Extremes {
  int dim;
  Shape kept;
  Tensor values, indices;
};
template <auto Kernel>
Extremes find_extremes(const Tensor& x, std::int64_t dim, bool keepdim, bool wants_values) {
  check_defined(x);
  const int d = wrap_dim(dim, x.shape());
  const bool is_scalar = x.rank() == 0;
  const Shape shape = is_scalar ? Shape{1} : x.shape();
  check(shape[d] > 0, "nothing to choose from in dim ", dim, " of ", describe(x));
  const Shape kept = reduced_shape(shape, {d}, true);
  const Shape result = is_scalar ? Shape{} : reduced_shape(shape, {d}, keepdim);
  const Tensor values = wants_values ? empty(result, x.dtype(), x.device()) : Tensor();
  const Tensor indices = empty(result, DType::i64, x.device());
  ConstView v = x.read();
  if (is_scalar) v.shape = v.strides = {1};
  run<Kernel>(x.device(), v, d, wants_values ? as_kept(values, kept) : View(), as_kept(indices, kept));
  return {d, kept, values, indices};
}

constexpr OpDefinition index_of_extreme(detail::ConstantName name) {
  return {.name = name, .attributes = {{"dim", integer}, {"keepdim", boolean}}, .family = Family::reduce};
}
template <const OpDefinition& definition, auto Kernel>
Tensor extreme_index(const Tensor& x, std::int64_t dim, bool keepdim) {
  const Op<definition> op(x, dim, keepdim);
  return op.result(find_extremes<Kernel>(x, dim, keepdim, false).indices);
}
template <const OpDefinition& definition, auto Along>
Tensor extreme_index_of_all(const Tensor& x) {
  const Op<definition> op(x);
  check_defined(x);
  check(x.numel() > 0, "nothing to choose from in ", describe(x));
  return op.result(Along(reshape(x, {x.numel()}), 0, false));
}

constexpr OpDefinition argmax_op = index_of_extreme("argmax");
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extreme_index<argmax_op, &ReduceKernels::argmax>(x, dim, keepdim);
}
constexpr OpDefinition argmin_op = index_of_extreme("argmin");
Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extreme_index<argmin_op, &ReduceKernels::argmin>(x, dim, keepdim);
}
constexpr OpDefinition argmax_of_all_op{.name = "argmax", .kind = OpKind::composite};
Tensor argmax(const Tensor& x) {
  return extreme_index_of_all<argmax_of_all_op, extreme_index<argmax_op, &ReduceKernels::argmax>>(x);
}
constexpr OpDefinition argmin_of_all_op{.name = "argmin", .kind = OpKind::composite};
Tensor argmin(const Tensor& x) {
  return extreme_index_of_all<argmin_of_all_op, extreme_index<argmin_op, &ReduceKernels::argmin>>(x);
}

/// The rule of max_with_indices and min_with_indices. The chosen element gets the gradient.
struct ChosenBackward final : Node {
  Saved indices{this};
  int dim = 0;
  Shape shape, kept;
  bool takes_undefined() const override { return true; }  // of the indices, which have none
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor chosen = reshape(indices.get(), kept);
    Shape along = Dims::filled(kept.size(), 1);
    along[dim] = shape.empty() ? 1 : shape[dim];
    const Tensor places = reshape(arange(along[dim], DType::i64, chosen.device()), along);
    gx[0] = reshape(where(places == chosen, reshape(gy[0], kept), 0), shape);
  }
};
constexpr OpDefinition extreme_with_index(detail::ConstantName name) {
  OpDefinition op = index_of_extreme(name);
  op.outputs = {"values", "indices"};
  return op;
}
template <const OpDefinition& definition, auto Kernel>
ValuesAndIndices choose(const Tensor& x, std::int64_t dim, bool keepdim) {
  const Op<definition> op(x, dim, keepdim);
  const Extremes found = find_extremes<Kernel>(x, dim, keepdim, true);
  if (auto* node = record_outputs<ChosenBackward>({found.values, found.indices}, x)) {
    node->indices.save(found.indices);
    node->dim = found.dim;
    node->shape = x.shape();
    node->kept = found.kept;
  }
  return {found.values, found.indices};
}
constexpr OpDefinition max_with_indices_op = extreme_with_index("max_with_indices");
ValuesAndIndices max_with_indices(const Tensor& x, std::int64_t dim, bool keepdim) {
  return choose<max_with_indices_op, &ReduceKernels::argmax>(x, dim, keepdim);
}
constexpr OpDefinition min_with_indices_op = extreme_with_index("min_with_indices");
ValuesAndIndices min_with_indices(const Tensor& x, std::int64_t dim, bool keepdim) {
  return choose<min_with_indices_op, &ReduceKernels::argmin>(x, dim, keepdim);
}

constexpr OpDefinition quantifier(detail::ConstantName name) {
  return {.name = name, .attributes = {{"dims", integers}, {"keepdim", boolean}}, .family = Family::reduce};
}
/// Runs max or min over bools: any or all. `of_none` is the result for no elements.
template <const OpDefinition& definition, auto Kernel, bool of_none>
Tensor quantify(const Tensor& x, const Dims& dims, bool keepdim) {
  const Op<definition> op(x, dims, keepdim);
  check_defined(x);
  if (x.dtype() != DType::boolean) return op.composed(quantify<definition, Kernel, of_none>(x != 0, dims, keepdim));
  const Reduced shapes(x, dims, keepdim);
  Tensor y = empty(shapes.result, DType::boolean, x.device());
  if (elements_reduced(x, shapes.kept) == 0)
    run<&CopyKernels::fill>(x.device(), Scalar(of_none), y.write());
  else
    run<Kernel>(x.device(), x.read(), as_kept(y, shapes.kept));
  return op.result(std::move(y));
}
constexpr OpDefinition any_op = quantifier("any");
Tensor any(const Tensor& x, const Dims& dims, bool keepdim) {
  return quantify<any_op, &ReduceKernels::max, false>(x, dims, keepdim);
}
constexpr OpDefinition all_op = quantifier("all");
Tensor all(const Tensor& x, const Dims& dims, bool keepdim) {
  return quantify<all_op, &ReduceKernels::min, true>(x, dims, keepdim);
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
  const Tensor y = sum(x, repeated, true);
  return op.result(added == 0 ? y : reshape(y, shape));
}

}  // namespace bytetape
