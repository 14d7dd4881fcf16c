#pragma once
#include <bytetape/bytetape.h>

namespace bytetape::examples {

/// Two 3x3 convolutions and a shortcut, which is a 1x1 convolution if the shape changes.
/// He et al., "Deep residual learning for image recognition", 2016.
struct BasicBlock : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential shortcut;

  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv2(out, out, 3, {.padding = 1, .bias = false}),
        bn1(out),
        bn2(out) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
    register_module("shortcut", shortcut);
    if (stride == 1 && in == out) return;
    shortcut.push_back(nn::Conv2d(in, out, 1, {.stride = stride, .bias = false})).push_back(nn::BatchNorm2d(out));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = conv2(bn1(conv1(x), Activation::relu));
    return bn2(y, shortcut(x), Activation::relu);
  }
};

/// Averages each channel: (n, c, h, w) to (n, c).
struct GlobalAveragePool : nn::Module {
  Tensor forward(const Tensor& x) override { return mean(x, {2, 3}); }
};

/// ResNet-18 for CIFAR-10's images of 32x32: a 3x3 stem and four stages of two blocks.
/// `width` is the number of channels in the stem and the first stage. With 64 it has 11.17 M parameters.
inline nn::Sequential resnet18(std::int64_t width = 64) {
  nn::Sequential net;
  net.push_back("conv1", nn::Conv2d(3, width, 3, {.padding = 1, .bias = false}));
  net.push_back("bn1", nn::BatchNorm2d(width)).push_back("relu", nn::ReLU());
  std::int64_t in = width;
  for (const std::int64_t out : {width, 2 * width, 4 * width, 8 * width}) {
    net.push_back(BasicBlock(in, out, out == width ? 1 : 2)).push_back(BasicBlock(out, out, 1));
    in = out;
  }
  net.push_back("pool", GlobalAveragePool()).push_back("fc", nn::Linear(8 * width, 10));
  return net;
}

}  // namespace bytetape::examples
