#pragma once
#include <concepts>
#include <cstdint>
#include <string_view>

#include "bytetape/autograd/ops/images/conv.h"
#include "bytetape/autograd/ops/images/conv_transpose.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/size2.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

using bytetape::Size2;

/// Zero padding of an image: a size, "valid" (no padding) or "same" (the output has the input's size; stride 1 only).
struct Padding2 {
  Size2 size;
  bool same = false;
  Padding2(std::integral auto both) : size(both) {}
  Padding2(std::int64_t h, std::int64_t w) : size(h, w) {}
  Padding2(Size2 size) : size(size) {}
  /// Throws ValueError unless name is "valid" or "same".
  Padding2(const char* name);
};

/// The arguments of torch.nn.Conv2d.
struct Conv2dOptions {
  Size2 stride = 1;
  Padding2 padding = 0;
  Size2 dilation = 1;       ///< distance between kernel elements, in pixels
  std::int64_t groups = 1;  ///< groups of channels without connections between them; divides in_ and out_channels
  bool bias = true;         ///< whether the layer has a bias
};

/// 2-d convolution of x (n, in_channels, h, w) (torch.nn.Conv2d).
///
/// weight (out, in / groups, kh, kw) and bias (out) are initialised from U(-b, b), b = 1/sqrt(in / groups * kh * kw).
/// weight has the channels-last memory format, as images do. Convolution libraries read and return it in that format.
class Conv2d : public Module {
 public:
  /// Throws ValueError if channels, groups or kernel_size are not positive, groups do not divide the channels, or
  /// padding is "same" and stride is not 1.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2 kernel_size, Conv2dOptions options = {});
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// Returns activation(forward(x)), computed as one op.
  Tensor operator()(const Tensor& x, Activation activation);
  std::string describe() const override;
  FusionRole fusion_role() const override;

  Parameter weight, bias;  ///< bias is undefined if the layer has none

 private:
  Tensor convolve(const Tensor& x, Activation activation);

  Conv2dParams params_;
  bool same_;
  bool uneven_[2] = {false, false};  // "same" padding of an even kernel has one more element at the end
};

/// Zero padding of a sequence: a size, "valid" (no padding) or "same" (the output has the input's length; stride 1
/// only).
struct Padding1 {
  std::int64_t size;
  bool same = false;
  Padding1(std::integral auto size) : size(static_cast<std::int64_t>(size)) {}
  /// Throws ValueError unless name is "valid" or "same".
  Padding1(const char* name);
};

/// The arguments of torch.nn.Conv1d.
struct Conv1dOptions {
  std::int64_t stride = 1;
  Padding1 padding = 0;
  std::int64_t dilation = 1;  ///< distance between kernel elements
  std::int64_t groups = 1;    ///< groups of channels without connections between them; divides in_ and out_channels
  bool bias = true;           ///< whether the layer has a bias
};

/// 1-d convolution of x (n, in_channels, l) (torch.nn.Conv1d).
///
/// weight (out, in / groups, k) and bias (out) are initialised from U(-b, b), b = 1/sqrt(in / groups * k). The channels
/// of weight are innermost in memory, as in Conv2d.
class Conv1d : public Module {
 public:
  /// Throws ValueError as Conv2d.
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size, Conv1dOptions options = {});
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// Returns activation(forward(x)), computed as one op.
  Tensor operator()(const Tensor& x, Activation activation);
  std::string describe() const override;
  FusionRole fusion_role() const override;

  Parameter weight, bias;  ///< bias is undefined if the layer has none

 private:
  Tensor convolve(const Tensor& x, Activation activation);

  Conv1dParams params_;
  bool same_;
  bool uneven_ = false;  // "same" padding of an even kernel has one more element at the end
};

/// The arguments of torch.nn.ConvTranspose2d.
struct ConvTranspose2dOptions {
  Size2 stride = 1, padding = 0;
  Size2 output_padding = 0;  ///< extra rows and columns at the end; less than stride or dilation
  Size2 dilation = 1;        ///< distance between kernel elements, in pixels
  std::int64_t groups = 1;   ///< groups of channels without connections between them; divides in_ and out_channels
  bool bias = true;          ///< whether the layer has a bias
};

/// Transposed 2-d convolution of x (n, in_channels, h, w) (torch.nn.ConvTranspose2d).
///
/// The output has the input size of the Conv2d with the same options. weight (in, out / groups, kh, kw) and bias (out)
/// are initialised from U(-b, b), b = 1/sqrt(out / groups * kh * kw). weight has the channels-last memory format, as in
/// Conv2d.
class ConvTranspose2d : public Module {
 public:
  /// Throws ValueError if channels, groups or kernel_size are not positive, or groups do not divide the channels.
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Size2 kernel_size,
                  ConvTranspose2dOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;  ///< bias is undefined if the layer has none

 private:
  ConvTranspose2dParams params_;
};

}  // namespace bytetape::nn
