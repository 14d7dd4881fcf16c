#pragma once
#include <concepts>
#include <cstdint>
#include <string_view>

#include "bytetape/autograd/ops/conv_transpose.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/size2.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

using bytetape::Size2;

/// Zeros around an image: a size, "valid" (none) or "same" (the output keeps the input's size; stride 1 only).
struct Padding2 {
  Size2 size;
  bool same = false;
  Padding2(std::integral auto both) : size(both) {}
  Padding2(std::int64_t h, std::int64_t w) : size(h, w) {}
  Padding2(Size2 size) : size(size) {}
  /// Throws ValueError unless name is "valid" or "same".
  Padding2(const char* name);
};

/// As the arguments of torch.nn.Conv2d.
struct Conv2dOptions {
  Size2 stride = 1;
  Padding2 padding = 0;
  Size2 dilation = 1;       ///< step between the elements of the kernel
  std::int64_t groups = 1;  ///< of channels, which see only their own; must divide in_channels and out_channels
  bool bias = true;         ///< whether there is one
};

/// 2-d convolution of x (n, in_channels, h, w) (torch.nn.Conv2d). weight (out, in / groups, kh, kw) and bias (out)
/// start in U(-b, b), b = 1/sqrt(in / groups * kh * kw). In memory the weight is channels-last, as images are:
/// libraries take it so, and so its gradient comes.
class Conv2d : public Module {
 public:
  /// Throws ValueError where channels, groups or kernel_size are not positive, groups do not divide the channels, or
  /// padding is "same" and stride not 1.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2 kernel_size, Conv2dOptions options = {});
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// activation(forward(x)) as one op.
  Tensor operator()(const Tensor& x, Activation activation);
  std::string describe() const override;
  FusionRole fusion_role() const override;

  Parameter weight, bias;  ///< bias is undefined without one

 private:
  Tensor convolve(const Tensor& x, Activation activation);

  Conv2dParams params_;
  bool same_;
  bool uneven_[2] = {false, false};  // "same" with an even kernel pads one more at the end
};

/// As the arguments of torch.nn.ConvTranspose2d.
struct ConvTranspose2dOptions {
  Size2 stride = 1, padding = 0;
  Size2 output_padding = 0;  ///< rows and columns more at the end, fewer than stride or dilation
  Size2 dilation = 1;        ///< step between the elements of the kernel
  std::int64_t groups = 1;   ///< of channels, which see only their own; must divide in_channels and out_channels
  bool bias = true;          ///< whether there is one
};

/// Transposed 2-d convolution of x (n, in_channels, h, w) (torch.nn.ConvTranspose2d), which gives the sizes back that
/// Conv2d with the same options took. weight (in, out / groups, kh, kw) and bias (out) start in U(-b, b),
/// b = 1/sqrt(out / groups * kh * kw). In memory the weight is channels-last, as Conv2d's.
class ConvTranspose2d : public Module {
 public:
  /// Throws ValueError where channels, groups or kernel_size are not positive, or groups do not divide the channels.
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Size2 kernel_size,
                  ConvTranspose2dOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;  ///< bias is undefined without one

 private:
  ConvTranspose2dParams params_;
};

}  // namespace bytetape::nn
