#pragma once
/// \file
/// Layers without parameters.
#include <functional>

#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/core/random.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Returns x (torch.nn.Identity).
struct Identity : Module {
  Tensor forward(const Tensor& x) override { return x; }
  std::string describe() const override { return "Identity()"; }
};
/// Returns f(x), for a function between the layers of a Sequential.
class Lambda : public Module {
 public:
  /// Throws ValueError if f is empty.
  explicit Lambda(std::function<Tensor(const Tensor&)> f);
  Tensor forward(const Tensor& x) override { return f_(x); }
  std::string describe() const override { return "Lambda()"; }

 private:
  std::function<Tensor(const Tensor&)> f_;
};
/// Returns relu(x) (torch.nn.ReLU).
struct ReLU : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "ReLU()"; }
  FusionRole fusion_role() const override;
};
/// Returns gelu(x, approximate) (torch.nn.GELU).
class GELU : public Module {
 public:
  explicit GELU(Approximate approximate = Approximate::none) : approximate_(approximate) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
  FusionRole fusion_role() const override;
  Approximate approximate() const { return approximate_; }

 private:
  Approximate approximate_;
};
/// Returns silu(x) (torch.nn.SiLU).
struct SiLU : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "SiLU()"; }
};
/// Returns tanh(x) (torch.nn.Tanh).
struct Tanh : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Tanh()"; }
};
/// Returns sigmoid(x) (torch.nn.Sigmoid).
struct Sigmoid : Module {
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Sigmoid()"; }
};

/// Returns leaky_relu(x, negative_slope) (torch.nn.LeakyReLU).
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return detail::concat("LeakyReLU(", negative_slope_, ")"); }

 private:
  double negative_slope_;
};
/// Returns softmax(x, dim) (torch.nn.Softmax).
class Softmax : public Module {
 public:
  explicit Softmax(std::int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return detail::concat("Softmax(", dim_, ")"); }

 private:
  std::int64_t dim_;
};

/// Zeroes each element with probability p and scales the rest by 1 / (1 - p), in training mode (torch.nn.Dropout).
/// Returns x in evaluation mode. Draws from default_generator().
class Dropout : public Module {
 public:
  /// Throws ValueError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;
  /// Returns forward(x), in row-major order if it is another tensor than x.
  Tensor row_major(const Tensor& x);
  FusionRole fusion_role() const override;
  std::string describe() const override { return detail::concat("Dropout(", p_, ")"); }

 private:
  double p_;
};

/// Flattens dims into one, by default (n, c, h, w) -> (n, c * h * w) (torch.nn.Flatten).
/// The order of elements is PyTorch's, in every memory format.
class Flatten : public Module {
 public:
  /// Flattens the dims start_dim to end_dim, both included. Negative dims count from the end.
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1) : start_(start_dim), end_(end_dim) {}
  Tensor forward(const Tensor& x) override;
  FusionRole fusion_role() const override;
  std::string describe() const override;

 private:
  std::int64_t start_, end_;
};

}  // namespace bytetape::nn
