// A custom op outside the library. Like the built-in ops, it is named in errors and in the memory report, checks its
// input, is twice differentiable, and its memory can be predicted on a meta device.
#include <bytetape/bytetape.h>

#include <cmath>
#include <cstdio>
#include <numbers>

// [op]
using namespace bytetape;

/// log(cosh(x)), elementwise; x f32 or f64 on the CPU.
Tensor log_cosh(const Tensor& x);

struct LogCoshBackward final : Node {
  Saved x{this};  // counted as "saved for backward"; backward throws if x was changed in place
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * tanh(x.get()); }
};

template <class T>
void log_cosh_kernel(const Tensor& x, Tensor& y) {  // both row-major
  const T *from = x.data<T>(), *end = from + x.numel();
  T* to = y.data<T>();
  for (; from != end; ++from, ++to)
    *to = std::abs(*from) + std::log1p(std::exp(-2 * std::abs(*from))) - T(std::numbers::ln2);
}

constexpr OpDefinition log_cosh_op{.name = "log_cosh"};  // of one input x, one output y and no attributes
Tensor log_cosh(const Tensor& x) {
  const Op<log_cosh_op> op(x);  // names the op in errors and on the ledger, and shows it to observers
  check_floating(x);
  check<DTypeError>(size_of(x.dtype()) >= 4, "expected f32 or f64, got ", describe(x));
  const Tensor dense = contiguous(x);
  Tensor y = empty(x.shape(), x.dtype(), x.device());
  if (!x.device().is_meta) {
    if (x.dtype() == DType::f64)
      log_cosh_kernel<double>(dense, y);
    else
      log_cosh_kernel<float>(dense, y);
  }
  if (auto* node = record<LogCoshBackward>(y, x)) node->x.save(x);
  return y;
}
// [op]

int main() {
  const auto fn = [](const std::vector<Tensor>& x) { return log_cosh(x[0]); };
  const Tensor x = randn({3, 4}, DType::f64).set_requires_grad();
  const GradcheckResult first = gradcheck(fn, {x}), second = gradgradcheck(fn, {x});
  std::printf("gradcheck of log_cosh\n  first order:  %s (%s)\n  second order: %s (%s)\n", first ? "right" : "WRONG",
              first.message.c_str(), second ? "right" : "WRONG", second.message.c_str());

  sum(log_cosh(x)).backward();
  std::printf("slope at %.4f: %.4f\n", select(select(x, 0, 0), 0, 0).item<double>(),
              select(select(x.grad(), 0, 0), 0, 0).item<double>());
  try {
    log_cosh(arange(3));
  } catch (const Error& e) { std::printf("bad input: %s\n", e.what()); }
  return first && second ? 0 : 1;
}
