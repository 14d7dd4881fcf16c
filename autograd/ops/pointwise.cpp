#include "bytetape/autograd/ops/pointwise.h"

#include <numbers>

#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/select.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

// ---- fused backward kernels, as ops of their own: their rules are made of ops again, which gives higher derivatives

template <auto Kernel>
Tensor fused(const Tensor& saved, const Tensor& gy) {
  const bool over = may_overwrite(gy) && same_layout(gy.shape(), gy.strides(), saved.strides());
  Tensor gx = over ? gy : elementwise::output(saved, gy, gy.dtype());
  run<Kernel>(gx.device(), saved.read(), gy.read(), gx.write());
  return gx;
}

Tensor tanh_backward(const Tensor& y, const Tensor& gy);
Tensor sigmoid_backward(const Tensor& y, const Tensor& gy);
Tensor relu_backward(const Tensor& y, const Tensor& gy);
Tensor gelu_backward(const Tensor& x, const Tensor& gy);

struct TanhBackwardBackward final : Node {  // gx = gy (1 - y^2)
  Saved y{this}, gy{this};
  void backward(const Grads& ggx, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = ggx[0] * gy.get() * y.get() * -2;
    if (gx.needs(1)) gx[1] = tanh_backward(y.get(), ggx[0]);
  }
};

struct SigmoidBackwardBackward final : Node {  // gx = gy y (1 - y)
  Saved y{this}, gy{this};
  void backward(const Grads& ggx, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = ggx[0] * gy.get() * (1 - y.get() * 2);
    if (gx.needs(1)) gx[1] = sigmoid_backward(y.get(), ggx[0]);
  }
};

struct ReluBackwardBackward final : Node {  // gx = gy where y > 0, which does not change with y
  Saved y{this};
  void backward(const Grads& ggx, InputGrads& gx) override {
    if (gx.needs(1)) gx[1] = relu_backward(y.get(), ggx[0]);
  }
};

struct GeluBackwardBackward final : Node {  // gx = gy gelu'(x), and gelu''(x) = phi(x) (2 - x^2)
  Saved x{this}, gy{this};
  void backward(const Grads& ggx, InputGrads& gx) override {
    if (gx.needs(0)) {
      const Tensor v = x.get(), square = v * v;
      const Tensor density = exp(square * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      gx[0] = ggx[0] * gy.get() * (density * (2 - square));
    }
    if (gx.needs(1)) gx[1] = gelu_backward(x.get(), ggx[0]);
  }
};

Tensor tanh_backward(const Tensor& y, const Tensor& gy) {
  const Op<"tanh_backward"> op;
  Tensor gx = fused<&Kernels::tanh_backward>(y, gy);
  if (auto* node = record<TanhBackwardBackward>(gx, y, gy)) {
    node->y.save(y);
    if (node->needs(0)) node->gy.save(gy);
  }
  return gx;
}

Tensor sigmoid_backward(const Tensor& y, const Tensor& gy) {
  const Op<"sigmoid_backward"> op;
  Tensor gx = fused<&Kernels::sigmoid_backward>(y, gy);
  if (auto* node = record<SigmoidBackwardBackward>(gx, y, gy)) {
    node->y.save(y);
    if (node->needs(0)) node->gy.save(gy);
  }
  return gx;
}

Tensor relu_backward(const Tensor& y, const Tensor& gy) {
  const Op<"relu_backward"> op;
  Tensor gx = fused<&Kernels::relu_backward>(y, gy);
  if (auto* node = record<ReluBackwardBackward>(gx, y, gy)) node->y.save(y);
  return gx;
}

Tensor gelu_backward(const Tensor& x, const Tensor& gy) {
  const Op<"gelu_backward"> op;
  Tensor gx = fused<&Kernels::gelu_backward>(x, gy);
  if (auto* node = record<GeluBackwardBackward>(gx, x, gy)) {
    node->x.save(x);
    if (node->needs(0)) node->gy.save(gy);
  }
  return gx;
}

// ---- the rules

struct ExpBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * y.get(); }
};
struct LogBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] / x.get(); }
};
struct SqrtBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] / (y.get() * 2); }
};
struct RsqrtBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * (pow(y.get(), 3) * -0.5); }
};
struct TanhBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = tanh_backward(y.get(), gy[0]); }
};
struct SigmoidBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = sigmoid_backward(y.get(), gy[0]); }
};
struct ReluBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = relu_backward(y.get(), gy[0]); }
};
struct GeluBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gelu_backward(x.get(), gy[0]); }
};
struct AbsBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * sign(x.get()); }
};
struct SignBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = zeros_like(gy[0]); }
};
struct ClampBackward final : Node {
  Saved x{this};
  Scalar low = 0, high = 0;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor v = x.get().detach();
    gx[0] = where(eq(v, clamp(v, low, high)), gy[0], zeros({}, v.dtype(), v.device()));  // both ends are inside
  }
};

// ---- the ops of one floating input: checks, kernel, and what is saved

template <auto Kernel>
Tensor apply(const Tensor& x) {
  check_floating(x);
  return elementwise::unary<Kernel>(x);
}

template <auto Kernel>
void apply_in_place(Tensor& x) {
  check_floating(x);
  check_in_place(x);
  run<Kernel>(x.device(), x.read(), x.write());
}

template <auto Kernel, class N>
Tensor saving_output(const Tensor& x) {
  Tensor y = apply<Kernel>(x);
  if (auto* node = record<N>(y, x)) node->y.save_output(y);
  return y;
}

template <auto Kernel, class N>
Tensor& saving_output_in_place(Tensor& x) {
  apply_in_place<Kernel>(x);
  if (auto* node = record_in_place<N>(x, x)) node->y.save_output(x);
  return x;
}

template <auto Kernel, class N>
Tensor saving_input(const Tensor& x) {
  Tensor y = apply<Kernel>(x);
  if (auto* node = record<N>(y, x)) node->x.save(x);
  return y;
}

/// A copy of x for backward, where there will be one; else x.
Tensor before_write(const Tensor& x) { return any_requires_grad({&x}) ? clone(x) : x; }

void check_clamp(const Tensor& x, Scalar low, Scalar high) {
  elementwise::check_arithmetic(x);
  elementwise::check_fits(low, x);
  elementwise::check_fits(high, x);
  check<ValueError>(low.to<double>() <= high.to<double>(), "expected low <= high, got ", low, " and ", high);
}

}  // namespace

Tensor exp(const Tensor& x) {
  const Op<"exp"> op;
  return saving_output<&Kernels::exp, ExpBackward>(x);
}
Tensor log(const Tensor& x) {
  const Op<"log"> op;
  return saving_input<&Kernels::log, LogBackward>(x);
}
Tensor sqrt(const Tensor& x) {
  const Op<"sqrt"> op;
  return saving_output<&Kernels::sqrt, SqrtBackward>(x);
}
Tensor rsqrt(const Tensor& x) {
  const Op<"rsqrt"> op;
  return saving_output<&Kernels::rsqrt, RsqrtBackward>(x);
}
Tensor tanh(const Tensor& x) {
  const Op<"tanh"> op;
  return saving_output<&Kernels::tanh, TanhBackward>(x);
}
Tensor sigmoid(const Tensor& x) {
  const Op<"sigmoid"> op;
  return saving_output<&Kernels::sigmoid, SigmoidBackward>(x);
}
Tensor relu(const Tensor& x) {
  const Op<"relu"> op;
  return saving_output<&Kernels::relu, ReluBackward>(x);
}
Tensor gelu(const Tensor& x) {
  const Op<"gelu"> op;
  return saving_input<&Kernels::gelu, GeluBackward>(x);
}

Tensor abs(const Tensor& x) {
  const Op<"abs"> op;
  elementwise::check_arithmetic(x);
  Tensor y = elementwise::unary<&Kernels::abs>(x);
  if (auto* node = record<AbsBackward>(y, x)) node->x.save(x);
  return y;
}

Tensor sign(const Tensor& x) {
  const Op<"sign"> op;
  Tensor y = apply<&Kernels::sign>(x);
  record<SignBackward>(y, x);
  return y;
}

Tensor clamp(const Tensor& x, Scalar low, Scalar high) {
  const Op<"clamp"> op;
  check_clamp(x, low, high);
  Tensor y = empty_like(x);
  run<&Kernels::clamp>(x.device(), low, high, x.read(), y.write());
  if (auto* node = record<ClampBackward>(y, x)) {
    node->x.save(x);
    node->low = low, node->high = high;
  }
  return y;
}

Tensor& exp_(Tensor& x) {
  const Op<"exp_"> op;
  return saving_output_in_place<&Kernels::exp, ExpBackward>(x);
}
Tensor& sqrt_(Tensor& x) {
  const Op<"sqrt_"> op;
  return saving_output_in_place<&Kernels::sqrt, SqrtBackward>(x);
}
Tensor& rsqrt_(Tensor& x) {
  const Op<"rsqrt_"> op;
  return saving_output_in_place<&Kernels::rsqrt, RsqrtBackward>(x);
}
Tensor& tanh_(Tensor& x) {
  const Op<"tanh_"> op;
  return saving_output_in_place<&Kernels::tanh, TanhBackward>(x);
}
Tensor& sigmoid_(Tensor& x) {
  const Op<"sigmoid_"> op;
  return saving_output_in_place<&Kernels::sigmoid, SigmoidBackward>(x);
}
Tensor& relu_(Tensor& x) {
  const Op<"relu_"> op;
  return saving_output_in_place<&Kernels::relu, ReluBackward>(x);
}

Tensor& log_(Tensor& x) {
  const Op<"log_"> op;
  check_floating(x);
  const Tensor before = before_write(x);
  apply_in_place<&Kernels::log>(x);
  if (auto* node = record_in_place<LogBackward>(x, x)) node->x.save(before);
  return x;
}

Tensor& abs_(Tensor& x) {
  const Op<"abs_"> op;
  elementwise::check_arithmetic(x);
  check_in_place(x);
  const Tensor before = before_write(x);
  run<&Kernels::abs>(x.device(), x.read(), x.write());
  if (auto* node = record_in_place<AbsBackward>(x, x)) node->x.save(before);
  return x;
}

Tensor& clamp_(Tensor& x, Scalar low, Scalar high) {
  const Op<"clamp_"> op;
  check_clamp(x, low, high);
  check_in_place(x);
  const Tensor before = before_write(x);
  run<&Kernels::clamp>(x.device(), low, high, x.read(), x.write());
  if (auto* node = record_in_place<ClampBackward>(x, x)) {
    node->x.save(before);
    node->low = low, node->high = high;
  }
  return x;
}

}  // namespace bytetape
