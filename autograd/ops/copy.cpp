#include "bytetape/autograd/ops/copy.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"

namespace bytetape {

using enum AttributeType;

namespace {

void check_has_data(const Tensor& x, Device target) {
  check<DeviceError>(!x.device().is_meta || target.is_meta, "cannot copy a meta tensor to ", target,
                     ", because it has no data: got ", describe(x));
}

}  // namespace

/// The rule of copies that change the layout only. The gradient passes unchanged.
struct CopyBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0]; }
};
static Tensor copied(const Tensor& x, const Strides& strides) {
  Tensor y = empty_strided(x.shape(), strides, x.dtype(), x.device());
  run<&CopyKernels::copy>(x.device(), x.read(), y.write());
  record<CopyBackward>(y, x);
  return y;
}

Tensor detail::copy_of(const Tensor& x) {
  Tensor y = empty_like(x);
  run<&CopyKernels::copy>(x.device(), x.read(), y.write());
  return y;
}

constexpr OpDefinition clone_op{.name = "clone", .family = Family::copy};
Tensor clone(const Tensor& x) {
  const Op<clone_op> op(x);
  check_defined(x);
  Tensor y = detail::copy_of(x);
  record<CopyBackward>(y, x);
  return y;
}

constexpr OpDefinition contiguous_op{.name = "contiguous", .family = Family::copy};
Tensor contiguous(const Tensor& x) {
  const Op<contiguous_op> op(x);
  check_defined(x);
  return x.is_contiguous() ? x : copied(x, contiguous_strides(x.shape()));
}

constexpr OpDefinition channels_last_op{.name = "channels_last", .family = Family::copy};
Tensor channels_last(const Tensor& x) {
  const Op<channels_last_op> op(x);
  check_defined(x);
  check(x.rank() == 4, "expected (n, c, h, w), got ", describe(x));
  return is_channels_last(x.shape(), x.strides()) ? x : copied(x, channels_last_strides(x.shape()));
}

struct ToBackward final : Node {
  Device device;
  DType dtype = DType::f32;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = to(gy[0], device, dtype); }
};
constexpr OpDefinition to_op{.name = "to", .attributes = {{"device", text}, {"dtype", text}}, .family = Family::copy};
Tensor to(const Tensor& x, Device device, DType dtype) {
  const Op<to_op> op(x, device, dtype);
  check_defined(x);
  if (x.device() == device && x.dtype() == dtype) return x;
  check_has_data(x, device);
  Tensor y = empty_like(x, dtype, device);
  if (x.storage().role() == memory::Role::input) y.storage().set_role(memory::Role::input);  // a batch keeps its role
  copy_across(x, y);
  if (!is_floating(dtype)) return op.result(std::move(y));
  if (auto* node = record<ToBackward>(y, x)) {
    node->device = x.device();
    node->dtype = x.dtype();
  }
  return y;
}
Tensor detail::apart_from(const Tensor& x, const Tensor& input, bool in_place) {
  return in_place && &input.storage() == &x.storage() ? clone(input) : input;
}

Tensor to(const Tensor& x, DType dtype) { return to(x, x.defined() ? x.device() : Device(), dtype); }
Tensor to(const Tensor& x, Device device) { return to(x, device, x.defined() ? x.dtype() : DType()); }

struct CopyInPlaceBackward final : Node {
  Shape shape;  // of b
  DType dtype = DType::f32;
  Device device;
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = zeros_like(gy[0]);
    if (gx.needs(1)) gx[1] = to(to(sum_to(gy[0], shape), dtype), device);
  }
};
constexpr OpDefinition copy__op{.name = "copy_", .inputs = {"a", "b"}, .family = Family::copy, .writes = {"a"}};
Tensor copy_(const Tensor& a, const Tensor& b) {
  const Op<copy__op> op(a, b);
  check_defined(a, "the first input");
  check_defined(b, "the second input");
  check(broadcasts_to(b.shape(), a.shape()), "expected b to broadcast to the shape of a, ", describe(a), ", got ",
        describe(b));
  check_has_data(b, a.device());
  Tensor from = detail::apart_from(a, b);  // integers have no gradient
  if (!is_floating(a.dtype())) from = from.detach();
  check_in_place(a, {&from});
  copy_across(from.read().expand(a.shape()), a.write(), &from.storage());
  if (auto* node = record_in_place<CopyInPlaceBackward>(a, a, from)) {
    node->shape = b.shape();
    node->dtype = b.dtype();
    node->device = b.device();
  }
  return a;
}

constexpr OpDefinition fill__op{
    .name = "fill_", .attributes = {{"value", number}}, .family = Family::copy, .writes = {"x"}};
Tensor fill_(const Tensor& x, Scalar value) {
  const Op<fill__op> op(x, value);
  check_defined(x);
  check<DTypeError>(fits(value, x.dtype()), x.dtype(), " cannot represent the number ", value, ", got ", describe(x));
  return overwrite(x, [&] { run<&CopyKernels::fill>(x.device(), value, x.write()); });
}

constexpr OpDefinition zero__op{.name = "zero_", .kind = OpKind::composite, .writes = {"x"}};
Tensor zero_(const Tensor& x) {
  const Op<zero__op> op(x);
  return op.result(fill_(x, 0));
}

}  // namespace bytetape
