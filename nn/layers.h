#pragma once
// Layers without parameters of their own.
#include "bytetape/core/kernels.h"
#include "bytetape/core/random.h"
#include "bytetape/nn/conv.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

struct ReLU : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "ReLU()"; }
};
struct GELU : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "GELU()"; }
};
struct Tanh : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Tanh()"; }
};
struct Sigmoid : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Sigmoid()"; }
};

/// The largest element of each window of (n, c, h, w); stride defaults to the kernel's size (torch.nn.MaxPool2d).
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Size2 kernel_size, Size2 stride = 0, Size2 padding = 0);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  Pool2dParams params_;
};

/// In training zeroes elements with probability p and scales the rest by 1 / (1 - p); in evaluation does nothing.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return detail::concat("Dropout(", p_, ")"); }

 private:
  double p_;
};

/// (n, c, h, w) -> (n, c * h * w), in PyTorch's order of elements whatever the layout in memory.
class Flatten : public Module {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1) : start_(start_dim), end_(end_dim) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Flatten()"; }

 private:
  std::int64_t start_, end_;
};

}  // namespace bytetape::nn
