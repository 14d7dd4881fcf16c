#include "bytetape/autograd/ops/arithmetic.h"

#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/select.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

using elementwise::binary;
using elementwise::binary_in_place;

// Where b is not the output's size, its gradient is summed back to its own shape.
struct AddBackward final : Node {
  Shape a, b;
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = sum_to(gy[0], a);
    if (gx.needs(1)) gx[1] = sum_to(gy[0], b);
  }
};

struct SubBackward final : Node {
  Shape a, b;
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = sum_to(gy[0], a);
    if (gx.needs(1)) gx[1] = sum_to(-gy[0], b);
  }
};

struct MulBackward final : Node {
  Saved a{this}, b{this};
  Shape a_shape, b_shape;
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = sum_to(gy[0] * b.get(), a_shape);
    if (gx.needs(1)) gx[1] = sum_to(gy[0] * a.get(), b_shape);
  }
};

struct DivBackward final : Node {
  Saved a{this}, b{this};
  Shape a_shape, b_shape;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor ga = gy[0] / b.get();
    if (gx.needs(0)) gx[0] = sum_to(ga, a_shape);
    if (gx.needs(1)) gx[1] = sum_to(-(ga * (a.get() / b.get())), b_shape);
  }
};

struct PowBackward final : Node {
  Saved a{this}, exponent{this};
  Shape a_shape, exponent_shape;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor x = a.get(), e = exponent.get();
    // d x^0 / dx is 0, also at x = 0, where x^-1 is not finite: 0 * x^0 instead.
    if (gx.needs(0)) gx[0] = sum_to(gy[0] * e * pow(x, where(eq(e, 0), zeros_like(e), e - 1)), a_shape);
    // d 0^e / de is 0 for e >= 0, where log(0) is not.
    if (gx.needs(1)) {
      const Tensor slope = pow(x, e) * log(x);
      gx[1] = sum_to(gy[0] * where(eq(x, 0), where(ge(e, 0), zeros_like(slope), slope), slope), exponent_shape);
    }
  }
};

/// d(a + s), d(a - s): the gradient passes.
struct PassBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0]; }
};

/// d(a * s), d(a / s), d(-a), d(s - a).
struct ScaleBackward final : Node {
  Scalar factor = 1;
  bool divide = false;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = divide ? gy[0] / factor : gy[0] * factor; }
};

struct ReciprocalBackward final : Node {  // y = s / b
  Saved b{this}, y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = -(gy[0] * y.get() / b.get()); }
};

struct PowScalarBackward final : Node {
  Saved a{this};
  Scalar exponent = 1;
  void backward(const Grads& gy, InputGrads& gx) override {
    const auto e = exponent.to<double>();
    gx[0] = e == 0 ? zeros_like(gy[0]) : gy[0] * (pow(a.get(), e - 1) * e);
  }
};

template <class N>
void save_shapes(N* node, const Tensor& a, const Tensor& b) {
  node->a_shape = a.shape();
  node->b_shape = b.shape();
}

/// b as backward needs it after a was overwritten, of which it may be another view: a *= a.
Tensor kept(const Tensor& b, const Tensor& a) {
  return any_requires_grad({&a, &b}) && &a.storage() == &b.storage() ? clone(b) : b;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  const Op<"add"> op;
  Tensor y = binary<&Kernels::add>(a, b);
  if (auto* node = record<AddBackward>(y, a, b)) node->a = a.shape(), node->b = b.shape();
  return y;
}

Tensor add(const Tensor& a, Scalar b) {
  const Op<"add"> op;
  Tensor y = binary<&Kernels::add>(a, b);
  record<PassBackward>(y, a);
  return y;
}

Tensor sub(const Tensor& a, const Tensor& b) {
  const Op<"sub"> op;
  Tensor y = binary<&Kernels::sub>(a, b);
  if (auto* node = record<SubBackward>(y, a, b)) node->a = a.shape(), node->b = b.shape();
  return y;
}

Tensor sub(const Tensor& a, Scalar b) {
  const Op<"sub"> op;
  Tensor y = binary<&Kernels::sub>(a, b);
  record<PassBackward>(y, a);
  return y;
}

Tensor sub(Scalar a, const Tensor& b) {
  const Op<"sub"> op;
  Tensor y = binary<&Kernels::sub>(a, b);
  if (auto* node = record<ScaleBackward>(y, b)) node->factor = -1;
  return y;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  const Op<"mul"> op;
  Tensor y = binary<&Kernels::mul>(a, b);
  if (auto* node = record<MulBackward>(y, a, b)) {
    save_shapes(node, a, b);
    if (node->needs(1)) node->a.save(a);
    if (node->needs(0)) node->b.save(b);
  }
  return y;
}

Tensor mul(const Tensor& a, Scalar b) {
  const Op<"mul"> op;
  Tensor y = binary<&Kernels::mul>(a, b);
  if (auto* node = record<ScaleBackward>(y, a)) node->factor = b;
  return y;
}

Tensor div(const Tensor& a, const Tensor& b) {
  const Op<"div"> op;
  Tensor y = binary<&Kernels::div>(a, b);
  if (auto* node = record<DivBackward>(y, a, b)) {
    save_shapes(node, a, b);
    if (node->needs(1)) node->a.save(a);
    node->b.save(b);
  }
  return y;
}

Tensor div(const Tensor& a, Scalar b) {
  const Op<"div"> op;
  Tensor y = binary<&Kernels::div>(a, b);
  if (auto* node = record<ScaleBackward>(y, a)) node->factor = b, node->divide = true;
  return y;
}

Tensor div(Scalar a, const Tensor& b) {
  const Op<"div"> op;
  Tensor y = binary<&Kernels::div>(a, b);
  if (auto* node = record<ReciprocalBackward>(y, b)) {
    node->b.save(b);
    node->y.save_output(y);
  }
  return y;
}

Tensor pow(const Tensor& a, const Tensor& exponent) {
  const Op<"pow"> op;
  Tensor y = binary<&Kernels::pow>(a, exponent);
  if (auto* node = record<PowBackward>(y, a, exponent)) {
    node->a_shape = a.shape();
    node->exponent_shape = exponent.shape();
    node->a.save(a);
    node->exponent.save(exponent);
  }
  return y;
}

Tensor pow(const Tensor& a, Scalar exponent) {
  const Op<"pow"> op;
  Tensor y = binary<&Kernels::pow>(a, exponent);
  if (auto* node = record<PowScalarBackward>(y, a)) {
    node->exponent = exponent;
    node->a.save(a);
  }
  return y;
}

Tensor neg(const Tensor& x) {
  const Op<"neg"> op;
  elementwise::check_arithmetic(x);
  Tensor y = elementwise::unary<&Kernels::neg>(x);
  if (auto* node = record<ScaleBackward>(y, x)) node->factor = -1;
  return y;
}

Tensor& add_(Tensor& a, const Tensor& b) {
  const Op<"add_"> op;
  binary_in_place<&Kernels::add>(a, b);
  if (auto* node = record_in_place<AddBackward>(a, a, b)) node->a = a.shape(), node->b = b.shape();
  return a;
}

Tensor& add_(Tensor& a, Scalar b) {
  const Op<"add_"> op;
  binary_in_place<&Kernels::add>(a, b);
  record_in_place<PassBackward>(a, a);
  return a;
}

Tensor& sub_(Tensor& a, const Tensor& b) {
  const Op<"sub_"> op;
  binary_in_place<&Kernels::sub>(a, b);
  if (auto* node = record_in_place<SubBackward>(a, a, b)) node->a = a.shape(), node->b = b.shape();
  return a;
}

Tensor& sub_(Tensor& a, Scalar b) {
  const Op<"sub_"> op;
  binary_in_place<&Kernels::sub>(a, b);
  record_in_place<PassBackward>(a, a);
  return a;
}

Tensor& mul_(Tensor& a, const Tensor& b) {
  const Op<"mul_"> op;
  elementwise::check_into(a, b);
  const Tensor before = any_requires_grad({&b}) ? clone(a) : a, other = kept(b, a);
  elementwise::write_into<&Kernels::mul>(a, b);
  if (auto* node = record_in_place<MulBackward>(a, a, b)) {
    save_shapes(node, a, b);
    if (node->needs(1)) node->a.save(before);
    if (node->needs(0)) node->b.save(other);
  }
  return a;
}

Tensor& mul_(Tensor& a, Scalar b) {
  const Op<"mul_"> op;
  binary_in_place<&Kernels::mul>(a, b);
  if (auto* node = record_in_place<ScaleBackward>(a, a)) node->factor = b;
  return a;
}

Tensor& div_(Tensor& a, const Tensor& b) {
  const Op<"div_"> op;
  elementwise::check_into(a, b);
  const Tensor before = any_requires_grad({&b}) ? clone(a) : a, other = kept(b, a);
  elementwise::write_into<&Kernels::div>(a, b);
  if (auto* node = record_in_place<DivBackward>(a, a, b)) {
    save_shapes(node, a, b);
    if (node->needs(1)) node->a.save(before);
    node->b.save(other);
  }
  return a;
}

Tensor& div_(Tensor& a, Scalar b) {
  const Op<"div_"> op;
  binary_in_place<&Kernels::div>(a, b);
  if (auto* node = record_in_place<ScaleBackward>(a, a)) node->factor = b, node->divide = true;
  return a;
}

Tensor& pow_(Tensor& a, Scalar exponent) {
  const Op<"pow_"> op;
  elementwise::check_into(a, exponent);
  const Tensor before = any_requires_grad({&a}) ? clone(a) : a;
  elementwise::write_into<&Kernels::pow>(a, exponent);
  if (auto* node = record_in_place<PowScalarBackward>(a, a)) {
    node->exponent = exponent;
    node->a.save(before);
  }
  return a;
}

Tensor& neg_(Tensor& x) {
  const Op<"neg_"> op;
  elementwise::check_arithmetic(x);
  check_in_place(x);
  run<&Kernels::neg>(x.device(), x.read(), x.write());
  if (auto* node = record_in_place<ScaleBackward>(x, x)) node->factor = -1;
  return x;
}

}  // namespace bytetape
