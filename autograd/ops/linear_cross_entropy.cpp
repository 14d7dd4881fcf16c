#include "bytetape/autograd/ops/linear_cross_entropy.h"

#include <algorithm>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/softmax.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/kernels/matmul.h"

namespace bytetape {

using enum AttributeType;

namespace {

constexpr std::int64_t most_bytes = std::int64_t{512} << 20;  // of a chunk's logits, unless the option says otherwise
constexpr std::int64_t tile = 256;                            // rows
constexpr std::int64_t alignment = 64;                        // elements: rows of logits begin at whole vectors
constexpr std::int64_t large =
    std::int64_t{1} << 34;  // multiplications; copying the weight of smaller products costs more time than it saves

/// The rule for x (n, d), weight (c, d) and targets (n). The saved gradients are those of the sum of all losses.
struct LinearCrossEntropyBackward final : Node {
  Saved x{this}, weight{this}, target{this}, gx{this}, gw{this}, count{this};
  std::int64_t ignore = 0;
  DType weight_dtype = DType::f32;

  void backward(const Grads& gy, InputGrads& grads) override {
    const Tensor v = x.get(), w = weight.get(), t = target.get();  // checks their versions in either rule
    const Tensor c = count.get(), g = to(gy[0], accumulated(gy[0].dtype()));
    const Tensor scale = c.defined() ? g / where(c == 0, 1, c) : g;
    if (grad_enabled()) return composed(v, w, t, scale, grads);
    if (grads.needs(0)) grads[0] = scaled(gx, scale, grads, v.dtype());
    if (grads.needs(1)) grads[1] = scaled(gw, scale, grads, weight_dtype);
  }

 private:
  /// Returns the saved gradient times `scale`, in its own memory if nobody else needs it.
  static Tensor scaled(Saved& g, const Tensor& scale, const InputGrads& grads, DType dtype) {
    const bool over = g.is_sole_owner(grads);
    const Tensor saved = over ? g.take(grads) : g.get();
    if (saved.dtype() != scale.dtype()) return to(to(saved, scale.dtype()) * scale, dtype);
    return to(over ? mul_(saved, scale) : saved * scale, dtype);
  }
  void composed(const Tensor& v, const Tensor& weight, const Tensor& target, const Tensor& scale,
                InputGrads& grads) const {
    const Tensor wide = to(v, scale.dtype()), w = to(weight, scale.dtype()), t = unsqueeze(target, 1);
    const Tensor logits = matmul(wide, transpose(w, 0, 1));
    const Tensor hot = to(t == arange(w.size(0), DType::i64, w.device()), scale.dtype());
    const Tensor g = where(t == ignore, 0, (softmax(logits, 1) - hot) * scale);
    if (grads.needs(0)) grads[0] = to(matmul(g, w), v.dtype());
    if (grads.needs(1)) grads[1] = to(matmul(transpose(g, 0, 1), wide), weight_dtype);
  }
};

ConstView matrix(const ConstView& x, bool is_transposed = false) {
  const int row = is_transposed ? 1 : 0, col = 1 - row;
  return {x.data(), x.dtype, x.device, {1, x.shape[row], x.shape[col]}, {0, x.strides[row], x.strides[col]}};
}
View matrix(const View& y) {
  return {y.data(), y.dtype, y.device, {1, y.shape[0], y.shape[1]}, {0, y.strides[0], y.strides[1]}};
}
void multiply(const ConstView& a, const ConstView& b, const View& y, bool accumulates = false) {
  run_planned<&MatmulKernels::matmul>(y.device, {a, b, {}, matrix(y), Activation::none, {}, accumulates});
}
Tensor rows_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  Shape shape = x.shape();
  shape[0] = count;
  return x.alias(shape, x.strides(), x.storage_offset() + first * x.strides()[0]);
}

/// Returns the weight (classes, features) with rows of 0 behind its own if products are faster for more classes.
Tensor with_more_classes(const Tensor& weight, const Tensor& x) {
  const std::int64_t classes = weight.size(0), features = weight.size(1);
  const std::int64_t multiple = std::max<std::int64_t>(backend(x.device()).kernels->find(&MatmulKernels::multiple), 1);
  const bool is_slow = size_of(x.dtype()) == 2 && classes % multiple != 0 && x.numel() * classes >= large;
  if (!is_slow) return weight;
  const std::int64_t more = (classes + alignment - 1) / alignment * alignment;
  const Tensor y = empty({more, features}, weight.dtype(), weight.device());
  run<&CopyKernels::copy>(y.device(), weight.read(), rows_of(y, 0, classes).write());
  run<&CopyKernels::fill>(y.device(), Scalar(0), rows_of(y, classes, more - classes).write());
  return y;
}

/// The losses of all rows, and the gradients of their sum, one chunk of rows after the other.
class ChunkedLoss {
 public:
  ChunkedLoss(const Tensor& x, const Tensor& weight, const Tensor& target, std::int64_t ignore, std::int64_t chunks)
      : x_(x),
        classes_(weight.size(0)),
        weight_(with_more_classes(weight, x)),
        target_(target),
        ignore_(ignore),
        dtype_(accumulated(x.dtype())),
        size_(chunk_size(chunks, weight_.is_same(weight) ? 0 : static_cast<std::int64_t>(weight_.nbytes()))),
        losses(empty(target.shape(), dtype_, x.device())) {}

  void compute(bool needs_x, bool needs_weight) {
    const std::int64_t n = x_.size(0);
    if (needs_x) gx = empty_like(x_);
    if (needs_weight) gw_ = empty(weight_.shape(), dtype_, x_.device());
    if (needs_weight) gw = rows_of(gw_, 0, classes_);
    if (needs_weight && n == 0) run<&CopyKernels::fill>(gw.device(), Scalar(0), gw.write());
    if (n == 0) return;
    const Shape shape{std::min(size_, n), weight_.size(0)};
    const std::int64_t pitch = (shape[1] + alignment - 1) / alignment * alignment;
    const Tensor padded = empty({shape[0], pitch}, x_.dtype(), x_.device());
    const Tensor padding = padded.alias({shape[0], pitch - shape[1]}, {pitch, 1}, shape[1]);
    run<&CopyKernels::fill>(x_.device(), Scalar(0), padding.write());  // products may read it
    logits_ = padded.alias(shape, {pitch, 1}, 0);
    for (std::int64_t first = 0; first < n; first += size_) compute_chunk(first, std::min(size_, n - first));
    logits_ = gw_ = {};
  }

 private:
  /// Returns the number of rows of a chunk. A chunk is smaller by the bytes of the weight's copy, `copied`.
  std::int64_t chunk_size(std::int64_t chunks, std::int64_t copied) const {
    const std::int64_t n = std::max<std::int64_t>(x_.size(0), 1), classes = std::max<std::int64_t>(weight_.size(0), 1);
    if (chunks > 0) return (n + chunks - 1) / chunks;
    const std::int64_t bytes = std::max(most_bytes - copied, most_bytes / 2);
    const std::int64_t rows = bytes / (classes * static_cast<std::int64_t>(size_of(x_.dtype())));
    return std::clamp<std::int64_t>(rows < tile ? rows : rows / tile * tile, 1, n);  // whole tiles of the products
  }

  void compute_chunk(std::int64_t first, std::int64_t count) {
    const Tensor x = rows_of(x_, first, count), target = rows_of(target_, first, count),
                 y = rows_of(losses, first, count), g = rows_of(logits_, 0, count);
    multiply(matrix(x.read()), matrix(weight_.read(), true), g.write());
    const std::int64_t more = g.size(1) - classes_;
    const Tensor of_classes = g.alias({count, classes_}, g.strides(), 0);
    run<&LossKernels::cross_entropy_in_place>(
        x.device(),
        CrossEntropyInPlaceArgs{of_classes.write(), target.read(), ignore_, gx.defined() || gw.defined(), y.write()});
    if (more > 0)  // their products are NaN if a row of x is not finite
      run<&CopyKernels::fill>(x.device(), Scalar(0), g.alias({count, more}, g.strides(), classes_).write());
    if (gx.defined()) multiply(matrix(g.read()), matrix(weight_.read()), rows_of(gx, first, count).write());
    if (gw.defined()) multiply(matrix(g.read(), true), matrix(x.read()), gw_.write(), first > 0);
  }

  const Tensor& x_;
  std::int64_t classes_;
  const Tensor weight_;  // may have more rows
  const Tensor& target_;
  std::int64_t ignore_;
  DType dtype_;
  std::int64_t size_;  // rows of a chunk
  Tensor logits_;      // of a chunk, and then their gradient
  Tensor gw_;          // with as many rows as weight_

 public:
  Tensor losses, gx, gw;
};

void check_inputs(const Tensor& x, const Tensor& weight, const Tensor& target,
                  const LinearCrossEntropyOptions& options) {
  check_same_type(x, weight);
  check_floating(x);
  check_defined(target, "the target");
  check<DeviceError>(target.device() == x.device(), "inputs on different devices: ", describe(x), " and ",
                     describe(target));
  check<DTypeError>(target.dtype() == DType::i64, "expected a target of class indices (i64), got ", describe(target));
  check(x.rank() > 0 && weight.rank() == 2 && x.shape().back() == weight.size(1),
        "expected x (..., features) and a weight (classes, features), got ", describe(x), " and ", describe(weight));
  check(target.shape() == Shape(std::span(x.shape().begin(), x.shape().end() - 1)),
        "expected a target for each row of ", describe(x), ", got ", describe(target));
  check<ValueError>(options.chunks >= 0, "chunks must not be negative, got ", options.chunks);
  check<ValueError>(options.reduction != Reduction::none, "the reduction must be mean or sum");
}

}  // namespace

constexpr OpDefinition linear_cross_entropy_op{
    .name = "linear_cross_entropy",
    .inputs = {"x", "weight", "target"},
    .attributes = {{"ignore_index", integer}, {"chunks", integer}, {"reduction", text}},
    .family = Family::loss,
    .autocast = AutocastClass::f32};  // of the result; the products are in 16 bits
Tensor linear_cross_entropy(const Tensor& input, const Tensor& w, const Tensor& target,
                            const LinearCrossEntropyOptions& options) {
  const Op<linear_cross_entropy_op> op(input, w, target, options.ignore_index, options.chunks, options.reduction);
  const AutocastWeight low_weight(w);
  const Tensor given = autocast_copy(input);
  const Tensor& weight = low_weight.value;
  check_inputs(given, weight, target, options);
  const Tensor x = reshape(contiguous(given), {target.numel(), weight.size(1)}), t = flatten(contiguous(target));
  const Ref<LinearCrossEntropyBackward> node = prepare<LinearCrossEntropyBackward>(x, low_weight.on_tape);
  ChunkedLoss loss(x, weight, t, options.ignore_index, options.chunks);
  loss.compute(node && node->needs(0), node && node->needs(1));
  Tensor count, y;
  {
    const NoGrad no_grad;
    y = sum(loss.losses);
    if (options.reduction == Reduction::mean) {
      count = sum(to(t != options.ignore_index, y.dtype()));
      y = y / count;
    }
    if (!autocast_enabled()) y = to(y, given.dtype());
  }
  detail::note_result(y);
  if (!node) return y;
  detail::add_output(*node, y);
  node->x.save(x), node->weight.save(low_weight.on_tape), node->target.save(t);
  node->gx.save(loss.gx), node->gw.save(loss.gw), node->count.save(count);
  node->ignore = options.ignore_index;
  node->weight_dtype = low_weight.on_tape.dtype();
  return y;
}

}  // namespace bytetape
