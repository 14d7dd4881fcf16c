#include "bytetape/nn/init.h"

#include <algorithm>
#include <cmath>

#include "bytetape/bytetape.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"

namespace bytetape {
namespace {

TEST(Init, KaimingAndXavierHaveTheirSpread) {
  manual_seed(5);
  Tensor w = empty({200, 50, 3, 3});
  nn::init::kaiming_normal_(w);
  EXPECT_NEAR(std::sqrt(var(w).item<double>()), std::sqrt(2.0 / 450), 2e-4);
  nn::init::xavier_uniform_(w);
  EXPECT_LE(max(abs(w)).item<double>(), std::sqrt(6.0 / (450 + 1800)));
  EXPECT_GT(max(abs(w)).item<double>(), 0.99 * std::sqrt(6.0 / (450 + 1800)));
  Tensor flat = empty({3});
  EXPECT_THROW(nn::init::kaiming_uniform_(flat), ShapeError);
}

double std_of(const Tensor& x) { return std::sqrt(var(x).item<double>()); }

TEST(Init, TakesTheFanAndTheGainThatItIsTold) {
  using nn::init::FanMode, nn::init::Nonlinearity;
  manual_seed(6);
  Tensor w = empty({400, 100, 3, 3});
  nn::init::kaiming_normal_(w, 0, FanMode::fan_out, Nonlinearity::relu);
  EXPECT_NEAR(std_of(w), std::sqrt(2.0 / 3600), 1e-4);
  nn::init::kaiming_normal_(w, /*a=*/3, FanMode::fan_in, Nonlinearity::tanh);
  EXPECT_NEAR(std_of(w), 5.0 / 3 / std::sqrt(900.0), 2e-4);
  nn::init::kaiming_uniform_(w, std::sqrt(5.0), FanMode::fan_out);
  const double bound = std::sqrt(3.0) * std::sqrt(2.0 / 6) / std::sqrt(3600.0);
  EXPECT_LE(max(abs(w)).item<double>(), bound);
  EXPECT_GT(max(abs(w)).item<double>(), 0.999 * bound);
  nn::init::xavier_normal_(w, 2);
  EXPECT_NEAR(std_of(w), 2 * std::sqrt(2.0 / 4500), 2e-4);
  nn::init::zeros_(w);
  EXPECT_EQ(max(abs(w)).item<double>(), 0);
  nn::init::ones_(w);
  EXPECT_EQ(min(w).item<double>(), 1);
  Tensor none = empty({0, 4});
  EXPECT_NO_THROW(nn::init::kaiming_uniform_(none));
  Tensor no_inputs = empty({4, 0});
  EXPECT_NO_THROW(nn::init::kaiming_uniform_(no_inputs)) << "whose fan is 0";
  EXPECT_NO_THROW(nn::init::kaiming_normal_(none, 0, FanMode::fan_out));
}

TEST(Init, HasPyTorchsGains) {
  using nn::init::calculate_gain, nn::init::Nonlinearity;
  const std::pair<const char*, double> gains[] = {{"linear", calculate_gain(Nonlinearity::linear)},
                                                  {"sigmoid", calculate_gain(Nonlinearity::sigmoid)},
                                                  {"tanh", calculate_gain(Nonlinearity::tanh)},
                                                  {"relu", calculate_gain(Nonlinearity::relu)},
                                                  {"leaky_relu", calculate_gain(Nonlinearity::leaky_relu)},
                                                  {"leaky_relu_0.2", calculate_gain(Nonlinearity::leaky_relu, 0.2)},
                                                  {"selu", calculate_gain(Nonlinearity::selu)}};
  for (const auto& [name, gain] : gains)
    EXPECT_THAT(test::golden_numbers("losses.csv", "gain", name), testing::ElementsAre(testing::DoubleEq(gain)));
}

/// The largest element of |a - b|.
double distance(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>(); }
Tensor identity(std::int64_t n) { return to(unsqueeze(arange(n), 1) == arange(n), DType::f64); }

TEST(Init, OrthogonalRowsOrColumnsAreOrthonormal) {
  for (const Shape& shape : {Shape{150, 150}, {5, 300}, {300, 70}, {40, 3, 3, 3}, {1, 1}}) {
    Tensor x = empty(shape, DType::f64);
    nn::init::orthogonal_(x, 3);
    const Tensor m = view(x, {shape[0], x.numel() / shape[0]}) / 3, t = transpose(m, 0, 1);
    const bool is_tall = m.size(0) > m.size(1);
    EXPECT_LT(distance(is_tall ? matmul(t, m) : matmul(m, t), identity(std::min(m.size(0), m.size(1)))), 1e-14 * 10)
        << shape;
  }
}

// The Q of what was drawn, R having a positive diagonal: q r = drawn, so r = q^T drawn is upper triangular.
TEST(Init, OrthogonalIsTheQOfWhatWasDrawn) {
  Generator one(8), other(8);
  Tensor q = empty({90, 80}, DType::f64);
  nn::init::orthogonal_(q, 1, one);
  const Tensor r = matmul(transpose(q, 0, 1), randn({90, 80}, DType::f64, Device::cpu(), other));
  const auto values = r.to_vector<double>();
  for (std::size_t i = 0; i < 80; ++i) {
    for (std::size_t j = 0; j < i; ++j) ASSERT_NEAR(values[i * 80 + j], 0, 1e-12);
    ASSERT_GT(values[i * 80 + i], 0);
  }
  EXPECT_EQ(one.state().offset, other.state().offset);
}

TEST(Init, DiracHandsItsInputOn) {
  const Tensor x = randn({2, 4, 5, 6}, DType::f64);
  Tensor w = empty({4, 4, 3, 3}, DType::f64);
  nn::init::dirac_(w);
  EXPECT_EQ(conv2d(x, w, {}, {.padding = 1}).to_vector<double>(), x.to_vector<double>());
  Tensor grouped = empty({4, 2, 3, 3}, DType::f64);
  nn::init::dirac_(grouped, 2);
  EXPECT_EQ(conv2d(x, grouped, {}, {.padding = 1, .groups = 2}).to_vector<double>(), x.to_vector<double>());
  Tensor line = empty({3, 2, 4});
  nn::init::dirac_(line);
  EXPECT_EQ(line.to_vector<double>(),
            (std::vector<double>{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Init, SaysWhatItTakes) {
  Tensor flat = empty({3}), matrix = empty({4, 4}), whole = zeros({3, 3}, DType::i64), weight = empty({4, 4, 3});
  EXPECT_THROWS_SAYING(nn::init::orthogonal_(flat), ShapeError, "orthogonal_: expected at least two dims");
  EXPECT_THROWS_SAYING(nn::init::kaiming_uniform_(flat), ShapeError,
                       "kaiming_uniform_: a fan needs a weight of at least");
  EXPECT_THROWS_SAYING(nn::init::xavier_normal_(flat), ShapeError, "xavier_normal_: a fan needs a weight of at least");
  EXPECT_THROWS_SAYING(nn::init::orthogonal_(whole), DTypeError, "orthogonal_: expected a floating dtype");
  EXPECT_THROWS_SAYING(nn::init::dirac_(matrix), ShapeError, "dirac_: expected a convolution's weight of rank 3 to 5");
  EXPECT_THROWS_SAYING(nn::init::dirac_(weight, 3), ValueError, "groups, 3, must divide");
  EXPECT_THROW(nn::init::dirac_(weight, 0), ValueError);
  Tensor volume = empty({1, 1, 1, 1, 3}), more = empty({1, 1, 1, 1, 1, 3}), no_window = empty({2, 2, 0});
  nn::init::dirac_(volume);
  EXPECT_EQ(volume.to_vector<double>(), (std::vector<double>{0, 1, 0}));
  EXPECT_THROWS_SAYING(nn::init::dirac_(more), ShapeError, "rank 3 to 5");
  EXPECT_NO_THROW(nn::init::dirac_(no_window));
  EXPECT_THROW(nn::init::xavier_normal_(flat), ShapeError);
}

TEST(Init, IsPredictedToTheByteAndDrawsNothingOnMeta) {
  const auto program = [](Device device) {
    Tensor weight = empty({20, 5, 3, 3}, DType::f32, device).set_requires_grad();
    nn::init::orthogonal_(weight);
    nn::init::dirac_(weight);
    nn::init::kaiming_normal_(weight);
  };
  EXPECT_EQ(
      test::first_difference(test::record_events(Device::cpu(), program), test::record_events(Device::meta(), program)),
      "");
  Generator g(1);
  Tensor weight = empty({4, 4}, DType::f32, Device::meta(Device::cuda()));
  nn::init::orthogonal_(weight, 1, g);
  EXPECT_EQ(g.state().offset, 0u);
}

TEST(Init, FansCountTheElementsOfAChannelPair) {
  const Tensor w = empty({20, 50, 3, 2});
  EXPECT_EQ(nn::init::fan_in(w), 300);
  EXPECT_EQ(nn::init::fan_out(w), 120);
}

TEST(Init, WritesParametersOffTheTape) {
  nn::Linear fc(3, 2);
  nn::init::normal_(fc.weight, 5, 0.1);
  nn::init::constant_(fc.bias, 2);
  EXPECT_NEAR(mean(fc.weight).item<double>(), 5, 0.5);
  EXPECT_EQ(fc.bias.to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_TRUE(fc.weight.is_leaf());
}

}  // namespace
}  // namespace bytetape
