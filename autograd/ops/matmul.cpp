#include "bytetape/autograd/ops/matmul.h"

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/walk.h"

namespace bytetape {

using enum AttributeType;

namespace {

/// Returns a @ b for the gradient of input i, summed to its shape. Adds to the gradient so far if there is one.
Tensor product_grad(const Tensor& a, const Tensor& b, const Shape& shape, DType dtype, InputGrads& gx, std::size_t i);

// The rule for inputs of rank 2 or more.
struct MatmulBackward final : Node {
  Saved a{this}, b{this};
  Shape a_shape, b_shape;
  DType a_dtype = DType::f32, b_dtype = DType::f32;
  void backward(const Grads& gy, InputGrads& gx) override {
    const auto turned = [&](const Tensor& x) { return transpose(autocast_copy_again(x, gy[0].dtype()), -2, -1); };
    const Tensor left = gx.needs(1) ? a.get() : Tensor(), right = gx.needs(0) ? b.get() : Tensor();
    if (gx.needs(0)) gx[0] = product_grad(gy[0], turned(right), a_shape, a_dtype, gx, 0);
    if (gx.needs(1)) gx[1] = product_grad(turned(left), gy[0], b_shape, b_dtype, gx, 1);
  }
};

/// Returns gw (out, in) = g^T @ x in `dtype`, which is the dtype of both matrices, or f32 if they have 16 bits. Adds to
/// the gradient so far, `sum`, if it is defined.
Tensor weight_grad(const Tensor& g, const Tensor& x, DType dtype, const Tensor& sum);

/// An activation whose rule needs its input has that input as output 1 of the node. Only the recorded rule uses output
/// 1.
struct LinearBackward final : Node {
  Saved x{this}, weight{this}, of_activation{this};
  Shape x_shape;
  Activation activation = Activation::none;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;
  std::uint32_t result_version = 0;
  bool is_exact = true;  // remake() has the result's bits
  bool can_remake(const Tensor& y) const override {
    return saves_input(activation) && of_activation.is_intact() && y.storage().version() == result_version &&
           (is_exact || detail::autograd_ambient.recompute == detail::RecomputeMode::all);
  }
  Tensor remake() const override { return activated(activation, of_activation.get()); }
  bool takes_undefined() const override { return true; }
  void backward(const Grads& gy, InputGrads& gx) override {
    const bool has_more = gy.size() > 1 && gy[1].defined();
    const Tensor all = has_more ? joined(gy, gx) : Tensor();
    const Tensor through = activation_and_bias_grad(has_more ? Activation::none : activation, of_activation,
                                                    has_more ? all : gy[0], gx, Channels::last, bias_dtype);
    const std::int64_t out = through.shape().back(), in = x_shape.back();
    const std::int64_t rows = numel(Shape(std::span(x_shape.begin(), x_shape.end() - 1)));
    const Tensor g = reshape(through, {rows, out});
    if (gx.needs(0)) gx[0] = view(matmul(g, autocast_copy_again(weight.get(), g.dtype())), x_shape);
    if (!gx.needs(1)) return;
    const Tensor inputs = reshape(x.get(), {rows, in});
    gx[1] = weight_grad(g, inputs, weight_dtype, gx.so_far(1, {&g, &inputs}));
  }

 private:
  /// Returns the gradient of output 1, including the part that comes through output 0.
  Tensor joined(const Grads& gy, const InputGrads& gx) {
    return gy[0].defined() ? activation_grad(activation, of_activation, gy[0], gx) + gy[1] : gy[1];
  }
};

std::int64_t rows_of(const Tensor& x) { return x.shape()[x.rank() - 2]; }
std::int64_t cols_of(const Tensor& x) { return x.shape()[x.rank() - 1]; }
Shape batch_of(const Tensor& x) { return Shape(std::span(x.shape().begin(), x.shape().end() - 2)); }

/// Returns the batch dims of a, b and y = a @ b.
Walk<3> batches_of(const Tensor& a, const Tensor& b, const Tensor& y) {
  const auto step = [](const Tensor& x, int from_end) {
    const int dim = x.rank() - from_end;
    return dim < 0 || x.shape()[dim] == 1 ? 0 : x.strides()[dim];
  };
  Walk<3> batches;
  for (int i = y.rank(); i > 2; --i) batches.add(y.shape()[y.rank() - i], {step(a, i), step(b, i), step(y, i)});
  batches.complete();
  return batches;
}

/// Returns `count` matrices of x from element `offset` on, with `step` elements from one to the next.
template <class V>
V matrices(const V& x, std::int64_t count, std::int64_t step, std::int64_t offset) {
  const int r = x.rank();
  auto* data = static_cast<char*>(const_cast<void*>(x.data())) + offset * static_cast<std::int64_t>(size_of(x.dtype));
  return V(data, x.dtype, x.device, {count, x.shape[r - 2], x.shape[r - 1]},
           {step, x.strides[r - 2], x.strides[r - 1]});
}

/// Computes y = a @ b, or y += a @ b, with one kernel call per index of the outer batch dims. The innermost batch dim
/// is part of the call.
void multiply(const Tensor& a, const Tensor& b, const Tensor& y, bool accumulates = false) {
  const Walk<3> batches = batches_of(a, b, y);
  const int inner = batches.shape.size() - 1;
  const std::int64_t count = batches.shape[inner], calls = count == 0 ? 0 : numel(batches.shape) / count;
  const auto product = [&](const Dims& at) -> MatmulArgs {
    std::int64_t offset[3] = {0, 0, 0};
    for (int d = 0; d < inner; ++d)
      for (std::size_t k = 0; k < 3; ++k) offset[k] += at[d] * batches.strides[k][d];
    return {matrices(a.read(), count, batches.strides[0][inner], offset[0]),
            matrices(b.read(), count, batches.strides[1][inner], offset[1]),
            {},
            matrices(y.write(), count, batches.strides[2][inner], offset[2]),
            Activation::none,
            {},
            accumulates};
  };
  Dims at = Dims::filled(inner, 0);
  const Prepared<&MatmulKernels::matmul> kernel(y.device(), product(at));
  for (std::int64_t i = 0; i < calls; ++i) {
    std::int64_t rest = i;
    for (int d = inner - 1; d >= 0; --d) {
      at[d] = rest % batches.shape[d];
      rest /= batches.shape[d];
    }
    kernel.launch(product(at));
  }
}

/// Returns sum + a @ b, in place.
Tensor add_product(const Tensor& a, const Tensor& b, const Tensor& sum) {
  if (a.size(1) > 0) multiply(a, b, sum, true);
  return sum;
}

Tensor product_grad(const Tensor& a, const Tensor& b, const Shape& shape, DType dtype, InputGrads& gx, std::size_t i) {
  const bool is_matrix = a.rank() == 2 && b.rank() == 2;
  if (const Tensor sum = is_matrix ? gx.so_far(i, {&a, &b}) : Tensor(); sum.defined()) return add_product(a, b, sum);
  return to(sum_to(matmul(a, b), shape), dtype);
}

Tensor weight_grad(const Tensor& g, const Tensor& x, DType dtype, const Tensor& sum) {
  const Tensor turned = transpose(g, 0, 1);
  if (sum.defined()) return add_product(turned, x, sum);
  if (grad_enabled()) return to(matmul(turned, x), dtype);
  Tensor gw = empty({g.size(1), x.size(1)}, dtype, g.device());
  multiply(turned, x, gw);
  return gw;
}

}  // namespace

constexpr OpDefinition matmul_op{
    .name = "matmul", .inputs = {"a", "b"}, .family = Family::matmul, .autocast = AutocastClass::low};
Tensor matmul(const Tensor& left, const Tensor& right) {
  const Op<matmul_op> op(left, right);
  const AutocastWeight low_left(left), low_right(right);
  const Tensor &a = low_left.value, &b = low_right.value;
  check_same_type(a, b);
  check_floating(a);
  check(a.rank() > 0 && b.rank() > 0, "expected at least one dimension each, got ", describe(a), " and ", describe(b));
  check(a.shape().back() == (b.rank() == 1 ? b.numel() : rows_of(b)), "the columns of ", describe(a),
        " do not match the rows of ", describe(b));
  if (a.rank() == 1)
    return op.composed(squeeze(matmul(unsqueeze(low_left.on_tape, 0), low_right.on_tape), b.rank() == 1 ? 0 : -2));
  if (b.rank() == 1) return op.composed(squeeze(matmul(low_left.on_tape, unsqueeze(low_right.on_tape, 1)), -1));
  Shape shape = batch_of(a);
  check(broadcast_into(shape, batch_of(b)), "the batches of ", describe(a), " and ", describe(b), " do not broadcast");
  shape.push_back(rows_of(a));
  shape.push_back(cols_of(b));
  if (b.rank() == 2 && a.rank() > 2) {  // b is one matrix: all rows of a form one product, also in backward
    const std::int64_t rows = numel(batch_of(a)) * rows_of(a);
    return op.composed(view(matmul(reshape(low_left.on_tape, {rows, cols_of(a)}), low_right.on_tape), shape));
  }
  Tensor y = empty(shape, a.dtype(), a.device());
  multiply(a, b, y);
  if (auto* node = record<MatmulBackward>(y, low_left.on_tape, low_right.on_tape)) {
    node->a_shape = a.shape();
    node->b_shape = b.shape();
    node->a_dtype = low_left.on_tape.dtype();
    node->b_dtype = low_right.on_tape.dtype();
    if (node->needs(1)) node->a.save(low_left.on_tape);
    if (node->needs(0)) node->b.save(low_right.on_tape);
  }
  return y;
}

constexpr OpDefinition linear_op{.name = "linear",
                                 .inputs = {"x", "weight", "bias"},
                                 .attributes = {{"activation", text}},
                                 .family = Family::matmul,
                                 .autocast = AutocastClass::low};
Tensor linear(const Tensor& input, const Tensor& w, const Tensor& b, Activation activation) {
  const Op<linear_op> op(input, w, b, activation);
  check_epilogue<MatmulKernels>(activation);
  const AutocastWeight low_weight(w), low_bias(b);
  const Tensor x = op.input(input), &weight = low_weight.value, &bias = low_bias.value;
  check_same_type(x, weight);
  check_floating(x);
  check(x.rank() > 0 && weight.rank() == 2, "expected an input (..., in) and a weight (out, in), got input ",
        describe(x), ", weight ", describe(weight));
  check(x.shape().back() == weight.size(1), "the input's last dim is ", x.shape().back(), ", but the weight takes ",
        weight.size(1), ": input ", describe(x), ", weight ", describe(weight));
  const std::int64_t in = weight.size(1), out = weight.size(0);
  if (bias.defined()) {
    check_same_type(x, bias);
    check(bias.shape() == Shape{out}, "expected a bias (", out, ",), got ", describe(bias), " for weight ",
          describe(weight));
  }
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  const Tensor rows = x.rank() == 2 || x.is_contiguous() ? x : contiguous(x);
  const Ref<LinearBackward> node = prepare<LinearBackward>(rows, low_weight.on_tape, low_bias.on_tape);
  const Tensor y = empty(shape, x.dtype(), x.device()), z = node && saves_input(activation) ? empty_like(y) : Tensor();
  const std::int64_t n = numel(Shape(std::span(shape.begin(), shape.end() - 1)));
  const std::int64_t row_step = x.rank() == 2 ? x.strides()[0] : in, col_step = x.rank() == 2 ? x.strides()[1] : 1;
  const ConstView x_view(rows.read().data(), x.dtype(), x.device(), {1, n, in}, {0, row_step, col_step});
  const ConstView w_view(weight.read().data(), x.dtype(), x.device(), {1, in, out},
                         {0, weight.strides()[1], weight.strides()[0]});
  const auto result = [&](const Tensor& t) {
    return View(t.write().data(), x.dtype(), x.device(), {1, n, out}, {0, out, 1});
  };
  const View y_view = result(y), z_view = z.defined() ? result(z) : View();
  const ConstView b_view = bias.defined() ? bias.read().expand(y_view.shape) : ConstView();
  const MatmulArgs args{x_view, w_view, b_view, y_view, activation, z_view};
  run_planned<&MatmulKernels::matmul>(x.device(), args);
  detail::note_result(y);
  if (!node) return y;
  detail::add_output(*node, y);
  if (z.defined()) detail::add_output(*node, z);
  node->x_shape = x.shape();
  if (node->needs(1)) node->x.save(rows);
  if (node->needs(0)) node->weight.save(low_weight.on_tape);
  if (z.defined()) {
    node->of_activation.save_output(z, 1);
    const auto approximates = backend(x.device()).kernels->find(&MatmulKernels::approximates);
    node->is_exact = !(approximates && approximates(args));
  } else if (activation != Activation::none) {
    node->of_activation.save_output(y);
  }
  node->activation = activation;
  node->result_version = y.storage().version();
  node->weight_dtype = low_weight.on_tape.dtype();
  if (bias.defined()) node->bias_dtype = low_bias.on_tape.dtype();
  return y;
}

}  // namespace bytetape
