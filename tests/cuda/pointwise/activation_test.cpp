// An activation within a layer's op, however a product or a convolution is made, is the one behind it.
#include <algorithm>
#include <cmath>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Tolerance {
  DType dtype;
  double relative;
};
// One rounding more or less, and another order of sums.
constexpr Tolerance tolerances[] = {{DType::f64, 1e-13}, {DType::f32, 1e-5}, {DType::bf16, 4e-3}, {DType::f16, 1e-3}};

/// Within `relative` of the largest value.
testing::AssertionResult close(const Tensor& actual, const Tensor& expected, double relative) {
  double largest = 1;
  for (const double v : expected.to_vector<double>()) largest = std::max(largest, std::abs(v));
  return all_close(actual, expected, 0, relative * largest);
}

using Inputs = std::vector<Tensor>;

class CudaActivation : public GpuTest, public testing::WithParamInterface<Tolerance> {
 protected:
  /// Values and gradients of f(relu) with those of relu(f(none)), f being of fresh inputs of these shapes. The first
  /// input requires grad where asked.
  template <class F>
  void expect_alike(const std::vector<Shape>& shapes, bool first_requires_grad, const F& f) {
    const auto [dtype, relative] = GetParam();
    Inputs x, leaves;
    for (const Shape& shape : shapes) {
      x.push_back(to(random_tensor(shape, dtype), gpu));
      if (x.size() == 1 && !first_requires_grad) continue;
      leaves.push_back(x.back().set_requires_grad());
    }
    const Tensor one = f(x, Activation::relu), two = relu(f(x, Activation::none));
    EXPECT_TRUE(close(one, two, relative));
    // Where the two differ by rounding one may be 0: gradients are compared through the mask of the first.
    const Tensor gy = to(random_tensor(one.shape(), dtype), gpu) * to(one.detach() > 0, dtype);
    const Inputs got = grad({one}, leaves, {.seeds = {gy}}),
                 expected = grad({f(x, Activation::none)}, leaves, {.seeds = {gy}});
    for (std::size_t i = 0; i < leaves.size(); ++i)
      EXPECT_TRUE(close(got[i], expected[i], relative)) << "gradient " << i;
  }
};

TEST_P(CudaActivation, OfLinear) {
  for (const Shape& s : {Shape{5, 3, 4}, Shape{64, 96, 33}, Shape{130, 0, 8}})  // rows, in, out
    for (const bool has_bias : {true, false}) {
      SCOPED_TRACE(detail::concat(s, has_bias ? " with a bias" : ""));
      std::vector<Shape> shapes{{s[0], s[1]}, {s[2], s[1]}};
      if (has_bias) shapes.push_back({s[2]});
      expect_alike(shapes, true,
                   [&](const Inputs& x, Activation a) { return linear(x[0], x[1], has_bias ? x[2] : Tensor(), a); });
    }
}

// In 16 bits cuBLASLt's epilogue takes what was not rounded yet, and so makes one rounding less; it leaves its input
// where rows are whole vectors of 16 bytes. Elsewhere a kernel of ours follows the product.
void expect_gelu_alike(const Shape& s, bool has_bias, DType dtype, double relative) {  // rows, in, out
  SCOPED_TRACE(detail::concat(dtype, s, has_bias ? " with a bias" : ""));
  const auto leaf = [&](const Shape& shape) { return to(random_tensor(shape, dtype), gpu).set_requires_grad(); };
  const Tensor x = leaf({s[0], s[1]}), w = leaf({s[2], s[1]}), b = has_bias ? leaf({s[2]}) : Tensor();
  Inputs leaves{x, w};
  if (has_bias) leaves.push_back(b);
  const Tensor one = linear(x, w, b, Activation::gelu_tanh), two = gelu(linear(x, w, b), Approximate::tanh);
  EXPECT_TRUE(close(one, two, relative));
  const Tensor gy = to(random_tensor(one.shape(), dtype), gpu);
  const Inputs got = grad({one}, leaves, {.seeds = {gy}}), expected = grad({two}, leaves, {.seeds = {gy}});
  for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(close(got[i], expected[i], relative)) << "gradient " << i;
  const NoGrad no_grad;
  EXPECT_TRUE(close(linear(x, w, b, Activation::gelu_tanh), two, relative)) << "without a gradient";
}

const Shape gelu_shapes[] = {{5, 3, 4}, {64, 96, 33}, {64, 96, 40}, {1, 32, 64}, {130, 64, 256}, {130, 0, 8}};

TEST_P(CudaActivation, GeluOfLinear) {
  const auto [dtype, relative] = GetParam();
  for (const Shape& s : gelu_shapes)
    for (const bool has_bias : {true, false}) expect_gelu_alike(s, has_bias, dtype, 2 * relative);
}

class CudaTf32Activation : public GpuTest {};

TEST_F(CudaTf32Activation, GeluOfLinear) {
  const AllowTf32 on(true);
  for (const Shape& s : gelu_shapes)
    for (const bool has_bias : {true, false}) expect_gelu_alike(s, has_bias, DType::f32, 2e-3);
}

// Few channels are made from the definition, whose gradient of the weight takes the activation too where x wants none;
// more of them go through cuDNN, and f64 through products.
TEST_P(CudaActivation, OfConv2d) {
  for (const std::int64_t channels : {1, 2, 3, 4, 16})
    for (const std::int64_t made : {8, 9})
      for (const bool has_bias : {true, false})
        for (const bool first_requires_grad : {true, false}) {
          SCOPED_TRACE(detail::concat(channels, " channels to ", made, has_bias ? " with a bias" : "",
                                      first_requires_grad ? "" : ", of x that requires no grad"));
          std::vector<Shape> shapes{{3, channels, 13, 11}, {made, channels, 3, 3}};
          if (has_bias) shapes.push_back({made});
          for (const bool nhwc : {false, true})
            expect_alike(shapes, first_requires_grad, [&](const Inputs& x, Activation a) {
              const Tensor weight = nhwc ? channels_last(x[1]) : x[1];
              return conv2d(channels_last(x[0]), weight, has_bias ? x[2] : Tensor(), {.padding = 1}, a);
            });
        }
}

// Few rows in one launch, many in two; columns that fill vectors and that do not; y and gy in gx's memory or not.
TEST_P(CudaActivation, OfABiasGradient) {
  const auto [dtype, relative] = GetParam();
  for (const Shape& s : {Shape{256, 1024}, Shape{0, 8}, Shape{1, 1}, Shape{300, 10}, Shape{9000, 24}, Shape{9001, 7},
                         Shape{20000, 1}, Shape{5000, 260}})
    for (const bool keeps_graph : {false, true}) {
      SCOPED_TRACE(detail::concat(s, keeps_graph ? " keeping the graph" : ""));
      const Tensor x = to(random_tensor({s[0], 1}, dtype), gpu), w = to(random_tensor({s[1], 1}, dtype), gpu);
      const Tensor b = to(random_tensor(s[1], dtype), gpu).set_requires_grad();
      const Tensor y = linear(x, w, b, Activation::relu), gy = to(random_tensor(s, dtype), gpu);
      const std::vector<double> of_y = y.to_vector<double>(), of_gy = gy.to_vector<double>();
      std::vector<double> expected(static_cast<std::size_t>(s[1]), 0.0);
      double largest = 1, added = 0;  // each sum is rounded at the end, and its parts in f64
      for (std::size_t i = 0; i < of_y.size(); ++i)
        if (of_y[i] > 0) expected[i % expected.size()] += of_gy[i], added += std::abs(of_gy[i]);
      for (const double v : expected) largest = std::max(largest, std::abs(v));
      const auto gradient = [&] {
        return grad({y}, {b}, {.seeds = {gy}, .retain_graph = keeps_graph})[0].to_vector<double>();
      };
      const std::vector<double> got = gradient();
      EXPECT_TRUE(all_close(got, expected, 0, relative * largest + 1e-16 * added));
      if (keeps_graph) { EXPECT_EQ(gradient(), got); }
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaActivation, testing::ValuesIn(tolerances),
                         [](const auto& info) { return to_string(info.param.dtype); });

}  // namespace
}  // namespace bytetape::test
