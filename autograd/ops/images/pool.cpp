#include "bytetape/autograd/ops/images/pool.h"

#include <limits>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/images/image_map.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/pool.h"

namespace bytetape {

using enum AttributeType;

namespace {

/// The parameters of a pooling that its backward ops need.
struct Pooling {
  Pool2dParams params;
  Shape x_shape, y_shape;
  MemoryFormat format;  // of x; gradients have it too
};

std::int64_t output_size(std::int64_t input, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  const std::int64_t room = input + 2 * padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

constexpr std::int64_t most_size = std::numeric_limits<std::int32_t>::max();  // limit of window elements and strides

void check_image(const Tensor& x) {
  check_floating(x);
  check(x.rank() == 4, "expected x (n, c, h, w), got ", describe(x));
}

Pooling plan_pooling(const Tensor& x, Pool2dParams p) {
  check_image(x);
  if (p.stride == 0) p.stride = p.kernel;
  Pooling plan{p, x.shape(), x.shape(), suggest_memory_format(x)};
  for (int i = 0; i < 2; ++i) {
    check<ValueError>(p.kernel[i] >= 1 && p.stride[i] >= 1, "kernel and stride must be at least 1, got kernel ",
                      p.kernel, " and stride ", p.stride);
    check<ValueError>(p.padding[i] >= 0 && p.padding[i] <= p.kernel[i] / 2,
                      "padding must be between 0 and half the kernel, got padding ", p.padding, " and kernel ",
                      p.kernel);
    plan.y_shape[2 + i] = output_size(x.size(2 + i), p.kernel[i], p.stride[i], p.padding[i]);
  }
  check(x.size(2) > 0 && x.size(3) > 0, "there is nothing to pool in ", describe(x));
  check<ValueError>(p.kernel[0] <= most_size / p.kernel[1], "a window of ", p.kernel, " has too many elements");
  check<ValueError>(p.stride[0] <= most_size && p.stride[1] <= most_size, "strides must be below 2^31, got ", p.stride);
  check(plan.y_shape[2] > 0 && plan.y_shape[3] > 0, "a window of ", p.kernel, " does not fit into ", describe(x),
        " with padding ", p.padding);
  return plan;
}

/// Whether one window is the whole image. mean() then uses several threads per image.
bool is_all_of(const Tensor& x, const Pool2dParams& p) {
  return p.padding == 0 && p.kernel.h == x.size(2) && p.kernel.w == x.size(3);
}

Tensor max_pool2d_gather(const Tensor& x, const Tensor& indices, const Pooling& plan);

/// The rule of max_pool2d and of max_pool2d_gather.
struct MaxPool2dBackward final : Node {
  Saved indices{this};
  Pooling plan;
  void backward(const Grads& gy, InputGrads& gx) override;
};

struct MaxPool2dBackwardBackward final : Node {
  Saved indices{this};
  Pooling plan;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = max_pool2d_gather(gy[0], indices.get(), plan); }
};

constexpr OpDefinition max_pool2d_backward_op{
    .name = "max_pool2d_backward", .inputs = {"gy", "indices"}, .outputs = {"gx"}, .family = Family::pool};
/// Writes each element of gy to the index of its window's maximum.
Tensor max_pool2d_backward(const Tensor& gy, const Tensor& indices, const Pooling& plan) {
  const Op<max_pool2d_backward_op> op(gy, indices);
  Tensor gx = empty(plan.x_shape, plan.format, gy.dtype(), gy.device());
  run<&PoolKernels::max_pool2d_backward>(gy.device(), gy.read(), indices.read(), plan.params, gx.write());
  if (auto* node = record<MaxPool2dBackwardBackward>(gx, gy)) {
    node->indices.save(indices);
    node->plan = plan;
  }
  return gx;
}

constexpr OpDefinition max_pool2d_gather_op{
    .name = "max_pool2d_gather", .inputs = {"x", "indices"}, .family = Family::pool};
/// Reads x at the index of each window's maximum.
Tensor max_pool2d_gather(const Tensor& x, const Tensor& indices, const Pooling& plan) {
  const Op<max_pool2d_gather_op> op(x, indices);
  Tensor y = empty(plan.y_shape, plan.format, x.dtype(), x.device());
  run<&PoolKernels::max_pool2d_gather>(x.device(), x.read(), indices.read(), plan.params, y.write());
  if (auto* node = record<MaxPool2dBackward>(y, x)) {
    node->indices.save(indices);
    node->plan = plan;
  }
  return y;
}

void MaxPool2dBackward::backward(const Grads& gy, InputGrads& gx) {
  // The kernel needs gy in the memory format of the indices. Behind a flatten, gy is row-major.
  const Tensor g = plan.format == MemoryFormat::channels_last ? channels_last(gy[0]) : contiguous(gy[0]);
  gx[0] = max_pool2d_backward(g, indices.get(), plan);
}

// The kernels of average pooling, which is linear in the image.
constexpr OpDefinition average_op{.name = "avg_pool2d", .family = Family::pool};
constexpr OpDefinition average_backward_op{.name = "avg_pool2d_backward", .family = Family::pool};
using AvgPool2d = ImageMap<average_op, &PoolKernels::avg_pool2d, average_backward_op, &PoolKernels::avg_pool2d_backward,
                           Pool2dParams, bool>;
constexpr OpDefinition adaptive_op{.name = "adaptive_avg_pool2d", .family = Family::pool};
constexpr OpDefinition adaptive_backward_op{.name = "adaptive_avg_pool2d_backward", .family = Family::pool};
using AdaptiveAvgPool2d = ImageMap<adaptive_op, &PoolKernels::adaptive_avg_pool2d, adaptive_backward_op,
                                   &PoolKernels::adaptive_avg_pool2d_backward>;

}  // namespace

constexpr OpDefinition max_pool2d_op{
    .name = "max_pool2d",
    .attributes = {{"kernel", integers}, {"stride", integers}, {"padding", integers}, {"activation", text}},
    .family = Family::pool};
Tensor max_pool2d(const Tensor& x, const Pool2dParams& params, Activation activation) {
  const Op<max_pool2d_op> op(x, params.kernel, params.stride, params.padding, activation);
  check_epilogue<PoolKernels>(activation);
  const Pooling plan = plan_pooling(x, params);
  Tensor y = empty(plan.y_shape, plan.format, x.dtype(), x.device()), indices;
  const bool narrow = plan.params.kernel.h * plan.params.kernel.w <= no_position<std::uint8_t>;
  if (any_requires_grad({&x})) indices = empty(plan.y_shape, plan.format, narrow ? DType::u8 : DType::i32, x.device());
  run<&PoolKernels::max_pool2d>(x.device(), x.read(), plan.params, activation, y.write(), write(indices));
  if (auto* node = record<MaxPool2dBackward>(y, x)) {
    node->indices.save(indices);
    node->plan = plan;
  }
  return y;
}

constexpr OpDefinition avg_pool2d_op{
    .name = "avg_pool2d",
    .attributes = {{"kernel", integers}, {"stride", integers}, {"padding", integers}, {"count_include_pad", boolean}},
    .kind = OpKind::composite};
Tensor avg_pool2d(const Tensor& x, const Pool2dParams& params, bool count_include_pad) {
  const Op<avg_pool2d_op> op(x, params.kernel, params.stride, params.padding, count_include_pad);
  const Pooling plan = plan_pooling(x, params);
  if (is_all_of(x, plan.params)) return op.result(mean(x, {2, 3}, true));
  return op.result(AvgPool2d{plan.x_shape, plan.y_shape, plan.format, {plan.params, count_include_pad}}(x));
}

constexpr OpDefinition adaptive_avg_pool2d_op{
    .name = "adaptive_avg_pool2d", .attributes = {{"output_size", integers}}, .kind = OpKind::composite};
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output_size) {
  const Op<adaptive_avg_pool2d_op> op(x, output_size);
  check_image(x);
  Shape y_shape = x.shape();
  for (int i = 0; i < 2; ++i) {
    check<ValueError>(output_size[i] >= 1 && output_size[i] <= most_size, "output_size must be from 1 to ", most_size,
                      ", got ", output_size);
    check(x.size(2 + i) >= 1, "there is nothing to average in ", describe(x));
    y_shape[2 + i] = output_size[i];
  }
  if (output_size == 1) return op.result(mean(x, {2, 3}, true));
  return op.result(AdaptiveAvgPool2d{x.shape(), y_shape, suggest_memory_format(x), {}}(x));
}

}  // namespace bytetape
