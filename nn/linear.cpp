#include "bytetape/nn/linear.h"

#include <cmath>

#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/core/error.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/fusion.h"
#include "bytetape/nn/init.h"

namespace bytetape::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias) {
  check<ValueError>(in_features > 0 && out_features > 0, "Linear needs positive sizes, got ", in_features, " and ",
                    out_features);
  weight = register_parameter("weight", Shape{out_features, in_features});
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  bias = with_bias ? register_parameter("bias", Shape{out_features}) : register_parameter("bias", Tensor());
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  if (with_bias) init::uniform_(bias, -bound, bound);
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

Tensor Linear::operator()(const Tensor& x, Activation activation) {
  return call(
      *this, [this, activation](const Tensor& x) { return linear(x, weight, bias, activation); }, x);
}

FusionRole Linear::fusion_role() const { return FusionRole::for_layer(*this, MatmulKernels::epilogues); }

std::string Linear::describe() const {
  return detail::concat("Linear(", weight.size(1), ", ", weight.size(0), bias.defined() ? ")" : ", bias=false)");
}

}  // namespace bytetape::nn
