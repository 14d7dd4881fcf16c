#include "bytetape/nn/layers.h"

#include <utility>

#include "bytetape/autograd/ops/dropout.h"
#include "bytetape/autograd/ops/softmax.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/fusion.h"

namespace bytetape::nn {

Lambda::Lambda(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {
  check<ValueError>(f_ != nullptr, "Lambda needs a function");
}

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x, approximate_); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, negative_slope_); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, dim_); }
Tensor Flatten::forward(const Tensor& x) { return flatten(x, start_, end_); }

FusionRole Flatten::fusion_role() const {
  return start_ == 1 && end_ == -1 ? FusionRole::for_reshape(*this)
                                   : FusionRole();  // height and width alone need no copy
}
FusionRole ReLU::fusion_role() const { return FusionRole::for_activation(*this, Activation::relu); }
FusionRole GELU::fusion_role() const {
  const bool is_by_tanh = approximate_ == Approximate::tanh;
  return FusionRole::for_activation(*this, is_by_tanh ? Activation::gelu_tanh : Activation::none);
}

std::string GELU::describe() const { return approximate_ == Approximate::tanh ? "GELU(approximate=tanh)" : "GELU()"; }

std::string Flatten::describe() const {
  return start_ == 1 && end_ == -1 ? "Flatten()" : detail::concat("Flatten(", start_, ", ", end_, ")");
}

Dropout::Dropout(double p) : p_(p) { check<ValueError>(p >= 0 && p <= 1, "Dropout needs 0 <= p <= 1, got ", p); }

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, is_training()); }
Tensor Dropout::row_major(const Tensor& x) {
  return call(
      *this, [this](const Tensor& x) { return detail::row_major_dropout(x, p_, is_training()); }, x);
}
FusionRole Dropout::fusion_role() const { return FusionRole::for_row_major(*this); }

}  // namespace bytetape::nn
