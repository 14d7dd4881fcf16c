// What callers hand in by mistake gets an exception, everywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(BadInput, SizesWhoseBytesOverflow) {
  constexpr std::int64_t big = std::int64_t{1} << 61;
  EXPECT_THROW(empty({big}, DType::f64), ShapeError);
  EXPECT_THROW(zeros({big + 1}, DType::f64), ShapeError);
  EXPECT_THROW(arange(0, std::int64_t{1} << 62), ShapeError);
  EXPECT_THROW(nn::Linear(std::int64_t{1} << 31, std::int64_t{1} << 31, false), ShapeError);
  EXPECT_THROW(empty({big}, DType::f64, Device::meta()), ShapeError);
}

// Before strides are multiplied from the sizes, which UBSan watches.
TEST(BadInput, SizesWhoseStridesOverflow) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THROWS_SAYING(zeros({large, large}), ShapeError, "zeros: a tensor of shape");
  EXPECT_THROW(empty({large, large, large}), ShapeError);
  EXPECT_THROW(empty({0, large, large}), ShapeError);
  EXPECT_THROW(empty_strided({large, large}, {large, 1}, DType::f32, Device::cpu()), ShapeError);
  EXPECT_THROW(from_vector<float>({1}, {large, large}), ShapeError);
  float one = 1;
  EXPECT_THROW(from_blob(&one, {large, large}, DType::f32), ShapeError);
  EXPECT_THROW(nn::Linear(large, large), ShapeError);
}

TEST(BadInput, MoreThanEightSizesNameTheOp) {
  const Tensor x = ones({1});
  const auto named = [](const char* op, const std::function<void()>& f) {
    EXPECT_THROWS_SAYING(f(), ShapeError, std::string(op) + ": a tensor has at most 8 dimensions");
  };
  named("empty", [] { empty({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  named("zeros", [] { zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  named("randn", [] { randn({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  named("from_vector", [] { from_vector<float>({1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  named("view", [&] { view(x, {1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  named("reshape", [&] { reshape(x, {1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  named("expand", [&] { expand(x, {1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  named("permute", [&] { permute(x, {0, 1, 2, 3, 4, 5, 6, 7, 8}); });
  named("sum", [&] { sum(x, {0, 1, 2, 3, 4, 5, 6, 7, 8}); });
  named("sum_to", [&] { sum_to(x, {1, 1, 1, 1, 1, 1, 1, 1, 1}); });
}

TEST(Dims, AreOneIntegerToEveryOp) {
  const Tensor x = arange(0, 6, 1, DType::f32);
  const Tensor y = view(x, {2, 3});
  EXPECT_EQ(sum(y, 1).to_vector<double>(), (std::vector<double>{3, 12}));
  EXPECT_EQ(sum(y, -1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(mean(y, 0).shape(), (Shape{3}));
  EXPECT_EQ(max(y, 0).to_vector<double>(), (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(var(y, 1).shape(), (Shape{2}));
  EXPECT_EQ(argmax(y, 1).shape(), (Shape{2}));
  EXPECT_EQ(view(y, -1).shape(), (Shape{6}));
  EXPECT_EQ(reshape(y, 6).shape(), (Shape{6}));
  EXPECT_EQ(expand(ones(1), 4).shape(), (Shape{4}));
  EXPECT_EQ(sum_to(y, 3).shape(), (Shape{3}));
}

TEST(BadInput, UndefinedTensors) {
  Tensor u;
  EXPECT_THROW(uniform_(u, 0, 1), ValueError);
  EXPECT_THROW(zeros_like(u), ValueError);
  EXPECT_THROW(empty_like(u), ValueError);
  EXPECT_THROW(u.grad(), ValueError);
  EXPECT_THROW(u.detach(), ValueError);
  EXPECT_THROW(u.set_requires_grad(), ValueError);
  EXPECT_FALSE(u.requires_grad());
  EXPECT_THROW(data::TensorDataset(u, randn({3})), ValueError);
}

TEST(BadInput, NumbersThatDoNotFit) {
  EXPECT_THROW(arange(0, 300, 1, DType::u8), ValueError);
  EXPECT_EQ(arange(0, 10, std::numeric_limits<std::int64_t>::max()).numel(), 1);
  EXPECT_EQ(arange(5, 0, -2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 3, 1}));
  EXPECT_THROW(Device::cuda(256), DeviceError);
  EXPECT_THROW(Device::cuda(-1), DeviceError);
  EXPECT_THROW(zeros({2}, DType::f32, Device{DeviceType::cpu, 3}), DeviceError);
  EXPECT_THROW(full({}, 2.0).size(0), ShapeError);
  float one = 1;
  EXPECT_THROW(from_blob(&one, {-3}, DType::f32), ShapeError);
}

TEST(BadInput, ABatchOfTheWrongSize) {
  const data::TensorDataset d(randn({5, 2}), randint(0, 3, {5}));
  data::Batch batch = d.allocate(1), none;
  const std::vector<std::int64_t> three{0, 1, 2};
  EXPECT_THROW(d.load(three, batch), ShapeError);
  EXPECT_THROW(d.load(three, none), ShapeError);
}

TEST(BadInput, BackwardOfAViewThatWasLeftBehind) {
  Tensor leaf = ones({1});
  leaf.set_requires_grad();
  Tensor x = leaf * 1;
  const Tensor v = view(x, {1, 1});
  mul_(x, 3);
  EXPECT_THROW(v.backward(), AutogradError);
  EXPECT_THROW(grad({v}, {leaf}), AutogradError);
}

TEST(BadInput, AFreedGraphIsNoUnusedInput) {
  Tensor x = randn({3});
  x.set_requires_grad();
  const Tensor y = sum(x * x);
  grad({y}, {x});
  EXPECT_THROW(grad({y}, {x}, {.allow_unused = true}), AutogradError);
}

TEST(BadInput, AFailedMoveLeavesTheModelAsItWas) {
  nn::Linear fc(3, 2);
  sum(fc(randn({4, 3}))).backward();
  EXPECT_THROW(fc.to(Device::cuda(200)), DeviceError);
  EXPECT_TRUE(fc.weight.grad().defined());
  const auto before = fc.weight.to_vector<float>();
  EXPECT_THROW(fc.load_state_dict({{"weight", zeros({2, 3})}, {"bias", zeros({2}, DType::f32, Device::meta())}}),
               DeviceError);
  EXPECT_EQ(fc.weight.to_vector<float>(), before);
}

TEST(BadInput, AQuotientByAViewOfItself) {
  Tensor base = from_vector<float>({2, 4});
  Tensor b = view(base, {2}).detach();
  b.set_requires_grad();
  const Tensor divided = div(base, b);
  sum(divided).backward();
  const auto expected = b.grad().to_vector<float>();
  b.set_grad({});
  div_(base, b);
  sum(base).backward();
  EXPECT_EQ(b.grad().to_vector<float>(), expected);
}

TEST(BadInput, AMoveBetweenForwardAndBackward) {
  nn::Linear fc(3, 2);
  const Tensor y = sum(fc(randn({4, 3}).set_requires_grad()));
  fc.to(DType::f64);
  EXPECT_THROWS_SAYING(y.backward(), AutogradError, "was moved or converted since; run backward first");
}

TEST(BadInput, ANumberThatOnlyUnsignedIntegersHave) {
  EXPECT_EQ(full({}, ~0ull, DType::f64).item<double>(), 0x1p64);
  EXPECT_THROWS_SAYING(ones({1}, DType::i64) + ~0ull, DTypeError, "i64 cannot represent");
}

TEST(BadInput, AConvolutionBeyondAnyImage) {
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  const Tensor x = randn({1, 1, 5, 5}), w = randn({1, 1, 3, 3});
  EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.dilation = {far, far}}), ValueError, "must be below 2^31");
  EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.stride = {std::int64_t{1} << 40, 1}}), ValueError, "must be below 2^31");
}

TEST(BadInput, ADatasetOfNegativeSize) {
  struct Broken : data::Dataset {
    std::int64_t size() const override { return -1; }
    data::ExampleSpec example() const override { return {}; }
    void fill(std::span<const std::int64_t>, Tensor&, Tensor&) const override {}
  };
  const Broken broken;
  EXPECT_THROWS_SAYING(data::DataLoader(broken, {}), ValueError,
                       "DataLoader: expected a dataset with size() >= 0, got -1");
}

TEST(BadInput, ALargeBatchInSixteenBits) {
  const Tensor logits = randn({70000, 4}), target = randint(0, 4, {70000});
  const float wide = cross_entropy(logits, target).item<float>();
  EXPECT_NEAR(cross_entropy(to(logits, DType::f16), target).item<float>(), wide, 2e-3);
}

}  // namespace
}  // namespace bytetape
