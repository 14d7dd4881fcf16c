// Autocast on a GPU: the CPU's values to the rounding of 16 bits, and the bytes that were predicted.
#include <algorithm>
#include <cmath>

#include "bytetape/bytetape.h"
#include "bytetape/core/device/shadow.h"
#include "tests/cuda/gpu.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaAutocast : public GpuTest, public testing::WithParamInterface<DType> {
 protected:
  /// Within a few roundings of the largest value.
  static testing::AssertionResult close(const Tensor& actual, const Tensor& expected) {
    double largest = 0;
    for (const double v : expected.to_vector<double>()) largest = std::max(largest, std::abs(v));
    return all_close(actual, expected, 0, (GetParam() == DType::bf16 ? 0.02 : 0.004) * largest);
  }

  /// Values and gradients of f of f32 leaves, here and there.
  template <class F>
  static void expect_alike(const std::vector<Shape>& shapes, const F& f) {
    std::vector<Tensor> here, there;
    for (const Shape& shape : shapes) {
      here.push_back(random_leaf(shape, DType::f32));
      there.push_back(to(here.back().detach(), gpu).set_requires_grad());
    }
    const Autocast autocast(GetParam());
    const Tensor y = f(here), z = f(there);
    EXPECT_EQ(z.dtype(), GetParam());
    EXPECT_TRUE(close(z, y));
    const Tensor gy = random_tensor(y.shape(), GetParam());
    const std::vector<Tensor> expected = grad({y}, here, {.seeds = {gy}}),
                              got = grad({z}, there, {.seeds = {to(gy, gpu)}});
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), DType::f32);
      EXPECT_TRUE(close(got[i], expected[i])) << "gradient " << i;
    }
  }
};

using Inputs = std::vector<Tensor>;

TEST_P(CudaAutocast, Linear) {
  for (const Shape& s : {Shape{5, 3, 4}, Shape{64, 96, 32}, Shape{33, 17, 9}}) {  // rows, in, out
    SCOPED_TRACE(detail::concat(s));
    expect_alike({{s[0], s[1]}, {s[2], s[1]}, {s[2]}}, [](const Inputs& x) { return linear(x[0], x[1], x[2]); });
    expect_alike({{s[0], s[1]}, {s[2], s[1]}}, [](const Inputs& x) { return linear(x[0], x[1]); });
    expect_alike({{s[0], s[1]}, {s[1], s[2]}}, [](const Inputs& x) { return matmul(x[0], x[1]); });
  }
}

TEST_P(CudaAutocast, Convolution) {
  struct Case {
    Shape x, weight;
    Conv2dParams params;
  };
  // Few channels, many, a kernel of one pixel, groups.
  for (const Case& c : {Case{{4, 1, 12, 12}, {16, 1, 3, 3}, {}}, Case{{4, 3, 12, 12}, {16, 3, 3, 3}, {.padding = 1}},
                        Case{{4, 16, 8, 8}, {32, 16, 3, 3}, {.stride = 2, .padding = 1}},
                        Case{{4, 16, 8, 8}, {8, 16, 1, 1}, {}}, Case{{2, 6, 7, 7}, {4, 3, 3, 3}, {.groups = 2}}}) {
    SCOPED_TRACE(detail::concat(c.x, c.weight));
    expect_alike({c.x, c.weight, {c.weight[0]}}, [&](const Inputs& x) { return conv2d(x[0], x[1], x[2], c.params); });
    expect_alike({c.x, c.weight}, [&](const Inputs& x) { return conv2d(x[0], x[1], {}, c.params); });
  }
}

TEST_P(CudaAutocast, TransposedConvolution) {
  const ConvTranspose2dParams params{.stride = 2, .padding = 1, .output_padding = 1};
  expect_alike({{4, 16, 8, 8}, {16, 8, 3, 3}, {8}},
               [&](const Inputs& x) { return conv_transpose2d(x[0], x[1], x[2], params); });
  expect_alike({{4, 16, 8, 8}, {16, 8, 3, 3}},
               [&](const Inputs& x) { return conv_transpose2d(x[0], x[1], {}, params); });
}

nn::Sequential net() {
  return nn::Sequential(nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(8), nn::ReLU(),
                        nn::Conv2d(8, 8, 3), nn::ReLU(), nn::Flatten(), nn::Linear(128, 4));
}

/// A few steps; the loss.
Tensor train(DType dtype, int steps) {
  manual_seed(5);
  nn::Sequential model = net();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor x = randn({8, 3, 6, 6}), y = randint(0, 4, {8});
  const Autocast autocast(dtype);
  Tensor loss;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    for (const Tensor& p : model.parameters()) {
      const Tensor copy = current_shadow(p);
      if (copy.defined() && !p.device().is_meta) {
        EXPECT_EQ(copy.to_vector<float>(), to(p.detach(), dtype).to_vector<float>());
      }
    }
  }
  return loss.detach();
}

TEST_P(CudaAutocast, Trains) {
  const DefaultDevice here(gpu);
  const auto wide = train(DType::f32, 6).item<double>(), low = train(GetParam(), 6).item<double>();
  EXPECT_NEAR(low, wide, 0.05 + 0.1 * wide);
  EXPECT_EQ(train(GetParam(), 6).item<double>(), low) << "the same bits again";
}

TEST_P(CudaAutocast, HasThePredictedEvents) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    manual_seed(5);
    nn::Sequential model = net();
    optim::Adam optimizer(model.parameters(), {});
    const Tensor x = randn({8, 3, 6, 6}), y = zeros({8}, DType::i64);
    const Autocast autocast(GetParam());
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      cross_entropy(model(x), y).backward();
      optimizer.step();
    }
  };
  EXPECT_EQ(first_difference(record_events(gpu, program), record_events(Device::meta(gpu), program)), "");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaAutocast, testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace bytetape::test
