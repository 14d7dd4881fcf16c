#pragma once
#include "bytetape/core/kernels/pool.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// The largest element of each window of (n, c, h, w); stride defaults to the kernel's size (torch.nn.MaxPool2d). What
/// is out of range is found by max_pool2d(), in forward.
class MaxPool2d : public Module {
 public:
  /// A stride of 0 stands for the kernel's size. A window that is not square: MaxPool2d(Size2(3, 4)).
  explicit MaxPool2d(Size2 kernel_size, Size2 stride = 0, Size2 padding = 0);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Pool2dParams params_;
};

/// The mean of each window (torch.nn.AvgPool2d), otherwise as MaxPool2d.
class AvgPool2d : public Module {
 public:
  /// Padding counts as zeros, or without count_include_pad not at all. There is no ceil_mode, which is PyTorch's fourth
  /// argument, and no divisor_override.
  explicit AvgPool2d(Size2 kernel_size, Size2 stride = 0, Size2 padding = 0, bool count_include_pad = true);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Pool2dParams params_;
  bool count_include_pad_;
};

/// (n, c, h, w) -> (n, c, h', w') of any size, by means of windows that cover all of x (torch.nn.AdaptiveAvgPool2d).
class AdaptiveAvgPool2d : public Module {
 public:
  /// One number stands for both: AdaptiveAvgPool2d(1) is the mean of each channel.
  explicit AdaptiveAvgPool2d(Size2 output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Size2 output_size_;
};

}  // namespace bytetape::nn
