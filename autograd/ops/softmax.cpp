#include "bytetape/autograd/ops/softmax.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"

namespace bytetape {
namespace {

// gx = y (gy - sum(y gy)), in one kernel.
Tensor softmax_backward(const Tensor& y, const Tensor& gy, int dim);
// gx = gy - exp(y) sum(gy), in one kernel.
Tensor log_softmax_backward(const Tensor& y, const Tensor& gy, int dim);

struct SoftmaxBackward final : Node {
  Saved y{this};
  int dim = 0;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = softmax_backward(y.get(), gy[0], dim); }
};

struct LogSoftmaxBackward final : Node {
  Saved y{this};
  int dim = 0;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = log_softmax_backward(y.get(), gy[0], dim); }
};

struct SoftmaxDoubleBackward final : Node {
  Saved y{this}, gy{this};
  int dim = 0;
  void backward(const Grads& g, InputGrads& gx) override {
    const Tensor p = y.get(), seed = gy.get();
    const Tensor along = sum(g[0] * p, {dim}, true);
    if (gx.needs(0)) gx[0] = g[0] * (seed - sum(p * seed, {dim}, true)) - seed * along;
    if (gx.needs(1)) gx[1] = p * (g[0] - along);
  }
};

struct LogSoftmaxDoubleBackward final : Node {
  Saved y{this}, gy{this};
  int dim = 0;
  void backward(const Grads& g, InputGrads& gx) override {
    const Tensor weighted = g[0] * exp(y.get());
    if (gx.needs(0)) gx[0] = -(weighted * sum(gy.get(), {dim}, true));
    if (gx.needs(1)) gx[1] = g[0] - sum(weighted, {dim}, true);
  }
};

template <auto Kernel, class Backward>
Tensor along(const Tensor& x, std::int64_t dim) {
  check_floating(x);
  const int d = wrap_dim(dim, x.shape());
  if (x.rank() == 0) return reshape(along<Kernel, Backward>(reshape(x, {1}), 0), {});
  Tensor y = empty_like(x);
  run<Kernel>(x.device(), x.read(), d, y.write());
  if (auto* node = record<Backward>(y, x)) {
    node->y.save_output(y);
    node->dim = d;
  }
  return y;
}

template <auto Kernel, class Backward>
Tensor backward_along(const Tensor& y, const Tensor& gy, int dim) {
  Tensor gx = empty_like(y);
  run<Kernel>(y.device(), y.read(), gy.read(), dim, gx.write());
  if (auto* node = record<Backward>(gx, y, gy)) {
    node->y.save(y);
    node->gy.save(gy);
    node->dim = dim;
  }
  return gx;
}

Tensor softmax_backward(const Tensor& y, const Tensor& gy, int dim) {
  return backward_along<&Kernels::softmax_backward, SoftmaxDoubleBackward>(y, gy, dim);
}
Tensor log_softmax_backward(const Tensor& y, const Tensor& gy, int dim) {
  return backward_along<&Kernels::log_softmax_backward, LogSoftmaxDoubleBackward>(y, gy, dim);
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) {
  const Op<"softmax"> op;
  return along<&Kernels::softmax, SoftmaxBackward>(x, dim);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  const Op<"log_softmax"> op;
  return along<&Kernels::log_softmax, LogSoftmaxBackward>(x, dim);
}

}  // namespace bytetape
