#pragma once
#include "bytetape/core/kernels/pool.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Maximum of each window of x (n, c, h, w) (torch.nn.MaxPool2d).
/// max_pool2d() checks the arguments, when forward() is called.
class MaxPool2d : public Module {
 public:
  /// A stride of 0 means kernel_size. A window that is not square: MaxPool2d(Size2(3, 4)).
  explicit MaxPool2d(Size2 kernel_size, Size2 stride = 0, Size2 padding = 0);
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// Returns activation(forward(x)), computed as one op. forward(relu(x)) is the same, but needs more memory.
  Tensor operator()(const Tensor& x, Activation activation);
  std::string describe() const override;
  FusionRole fusion_role() const override;

 private:
  Pool2dParams params_;
};

/// Mean of each window of x (n, c, h, w) (torch.nn.AvgPool2d).
class AvgPool2d : public Module {
 public:
  /// A stride of 0 means kernel_size. Padding counts as zeros in the mean, or not at all if count_include_pad is false.
  /// PyTorch's ceil_mode (its fourth argument) and divisor_override are not supported.
  explicit AvgPool2d(Size2 kernel_size, Size2 stride = 0, Size2 padding = 0, bool count_include_pad = true);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Pool2dParams params_;
  bool count_include_pad_;
};

/// Mean of windows that cover x, for any output size: (n, c, h, w) -> (n, c, h', w') (torch.nn.AdaptiveAvgPool2d).
class AdaptiveAvgPool2d : public Module {
 public:
  /// One number is both height and width: AdaptiveAvgPool2d(1) computes the mean of each channel.
  explicit AdaptiveAvgPool2d(Size2 output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Size2 output_size_;
};

}  // namespace bytetape::nn
