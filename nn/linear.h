#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Computes y = x W^T + b for x (..., in_features) (torch.nn.Linear).
/// weight (out, in) and bias (out) are initialised from U(-1/sqrt(in), 1/sqrt(in)).
class Linear : public Module {
 public:
  /// Throws ValueError if a size is not positive.
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// Returns activation(x W^T + b), computed as one op.
  Tensor operator()(const Tensor& x, Activation activation);
  std::string describe() const override;
  FusionRole fusion_role() const override;

  Parameter weight, bias;  ///< bias is undefined if the layer has none
};

}  // namespace bytetape::nn
