#pragma once
#include <bytetape/bytetape.h>

namespace bytetape::examples {

/// The number of values that encode an image.
inline constexpr std::int64_t code_size = 32;

/// Reshapes (n, c * h * w) to (n, c, h, w).
class Unflatten : public nn::Module {
 public:
  explicit Unflatten(const Shape& image) : image_(image) {}
  Tensor forward(const Tensor& x) override {
    Shape shape = image_;
    shape.insert(0, x.size(0));
    return view(x, shape);
  }

 private:
  Shape image_;
};

/// Encodes images of 28x28 as 32 numbers with two convolutions of stride 2, and decodes them with two transposed ones.
/// It has 0.12 M parameters.
inline nn::Sequential autoencoder() {
  nn::Sequential net;
  net.push_back("conv1", nn::Conv2d(1, 16, 3, {.stride = 2, .padding = 1})).push_back("relu1", nn::ReLU());
  net.push_back("conv2", nn::Conv2d(16, 32, 3, {.stride = 2, .padding = 1})).push_back("relu2", nn::ReLU());
  net.push_back("flatten", nn::Flatten()).push_back("encode", nn::Linear(32 * 7 * 7, code_size));
  net.push_back("decode", nn::Linear(code_size, 32 * 7 * 7)).push_back("relu3", nn::ReLU());
  net.push_back("unflatten", Unflatten({32, 7, 7}));
  net.push_back("conv3", nn::ConvTranspose2d(32, 16, 4, {.stride = 2, .padding = 1})).push_back("relu4", nn::ReLU());
  net.push_back("conv4", nn::ConvTranspose2d(16, 1, 4, {.stride = 2, .padding = 1}));
  return net;
}

}  // namespace bytetape::examples
