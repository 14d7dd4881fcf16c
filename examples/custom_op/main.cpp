// An op of one's own, outside the library, under the contract of the ops inside it: named in errors and on the ledger,
// checked before it runs, differentiable twice, predictable on a meta device.
#include <bytetape/bytetape.h>

#include <cmath>
#include <cstdio>

// [op]
using namespace bytetape;

/// log(1 + exp(x)), elementwise; x f32 or f64 on the CPU.
Tensor softplus(const Tensor& x);

struct SoftplusBackward final : Node {
  Saved x{this};  // counted as "saved for backward"; an in-place change until then is an error
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * sigmoid(x.get()); }
};

template <class T>
void softplus_kernel(const Tensor& x, Tensor& y) {  // both row-major
  const T *from = x.data<T>(), *end = from + x.numel();
  T* to = y.data<T>();
  for (; from != end; ++from, ++to) *to = std::max(*from, T{0}) + std::log1p(std::exp(-std::abs(*from)));
}

Tensor softplus(const Tensor& x) {
  const Op<"softplus"> op;
  check_floating(x);
  check<DTypeError>(size_of(x.dtype()) >= 4, "expected f32 or f64, got ", describe(x));
  const Tensor dense = contiguous(x);
  Tensor y = empty(x.shape(), x.dtype(), x.device());
  if (!x.device().is_meta) {
    if (x.dtype() == DType::f64)
      softplus_kernel<double>(dense, y);
    else
      softplus_kernel<float>(dense, y);
  }
  if (auto* node = record<SoftplusBackward>(y, x)) node->x.save(x);
  return y;
}
// [op]

int main() {
  const auto fn = [](const std::vector<Tensor>& x) { return softplus(x[0]); };
  const Tensor x = randn({3, 4}, DType::f64).set_requires_grad();
  const GradcheckResult first = gradcheck(fn, {x}), second = gradgradcheck(fn, {x});
  std::printf("gradcheck of softplus\n  first order:  %s (%s)\n  second order: %s (%s)\n", first ? "right" : "WRONG",
              first.message.c_str(), second ? "right" : "WRONG", second.message.c_str());

  sum(softplus(x)).backward();
  std::printf("slope at %.4f: %.4f\n", select(select(x, 0, 0), 0, 0).item<double>(),
              select(select(x.grad(), 0, 0), 0, 0).item<double>());
  try {
    softplus(arange(3));
  } catch (const Error& e) { std::printf("bad input: %s\n", e.what()); }
  return first && second ? 0 : 1;
}
