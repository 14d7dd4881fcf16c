#include "bytetape/core/factories.h"

#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using Integers = std::vector<std::int64_t>;

TEST(Factories, FillWithANumber) {
  EXPECT_EQ(zeros({2, 2}).to_vector<double>(), std::vector<double>(4, 0));
  EXPECT_EQ(ones({3}, DType::bf16).to_vector<double>(), std::vector<double>(3, 1));
  EXPECT_EQ(full({2}, 2.5, DType::f64).to_vector<double>(), std::vector<double>(2, 2.5));
  EXPECT_EQ(full({2}, (std::int64_t{1} << 60) + 1, DType::i64).to_vector<std::int64_t>(),
            Integers(2, (std::int64_t{1} << 60) + 1));
  EXPECT_EQ(full({}, 7).item<int>(), 7);
  EXPECT_EQ(zeros({3, 0}).numel(), 0);
}

TEST(Factories, DefaultToF32OnTheCpu) {
  EXPECT_EQ(zeros({2}).dtype(), DType::f32);
  EXPECT_EQ(rand({2}).dtype(), DType::f32);
  EXPECT_EQ(randint(0, 5, {2}).dtype(), DType::i64);
  EXPECT_EQ(zeros({2}).device(), Device::cpu());
}

TEST(Factories, LikeKeepsShapeDtypeAndLayout) {
  const Shape shape{2, 3, 4, 5};
  const Tensor x = empty_strided(shape, channels_last_strides(shape), DType::f64, {});
  const Tensor y = ones_like(x);
  EXPECT_EQ(y.shape(), shape);
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_EQ(y.dtype(), DType::f64);
  EXPECT_EQ(y.to_vector<double>(), std::vector<double>(120, 1));
  EXPECT_EQ(zeros_like(y).to_vector<double>(), std::vector<double>(120, 0));
}

TEST(Factories, Arange) {
  EXPECT_EQ(arange(4).to_vector<std::int64_t>(), (Integers{0, 1, 2, 3}));
  EXPECT_EQ(arange(2, 9, 3).to_vector<std::int64_t>(), (Integers{2, 5, 8}));
  EXPECT_EQ(arange(5, -1, -2).to_vector<std::int64_t>(), (Integers{5, 3, 1}));
  EXPECT_EQ(arange(0, 3, 1, DType::f32).dtype(), DType::f32);
  EXPECT_EQ(arange(0).numel(), 0);
  EXPECT_THROWS_SAYING(arange(0, 3, 0), ValueError, "arange");
  EXPECT_THROW(arange(0, 3, -1), ValueError);
}

TEST(Factories, RejectNegativeSizes) {
  EXPECT_THROWS_SAYING(zeros({2, -1}), ShapeError, "(2, -1)");
  EXPECT_THROW(rand({-3}), ShapeError);
}

TEST(Factories, FromVector) {
  EXPECT_EQ(from_vector<float>({1, 2, 3, 4}, {2, 2}).to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  const Tensor flags = from_vector(std::vector<bool>{true, false});
  EXPECT_EQ(flags.dtype(), DType::boolean);
  EXPECT_EQ(flags.to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(from_vector<std::uint8_t>({}, {0, 3}).shape(), (Shape{0, 3}));
  EXPECT_THROWS_SAYING(from_vector<double>({1, 2, 3}, {2, 2}), ShapeError, "3 values");
}

TEST(Factories, FromBlobWrapsAndReleases) {
  const std::size_t before = test::allocated();
  std::int32_t data[] = {4, 5, 6, 7};
  int released = 0;
  {
    Tensor x = from_blob(data, {2, 2}, DType::i32, [&] { ++released; });
    const Tensor row = x.alias({2}, {1}, 2);
    EXPECT_EQ(row.to_vector<int>(), (std::vector<int>{6, 7}));
    x.data<std::int32_t>()[0] = 40;
    EXPECT_EQ(data[0], 40);
    EXPECT_EQ(test::allocated(), before);
    x = Tensor();
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_THROW(from_blob(nullptr, {2}, DType::f32), ValueError);
}

TEST(Factories, OnMetaNothingIsTouched) {
  const std::size_t before = test::allocated();
  const Tensor x = zeros({1 << 20, 1 << 10}, DType::f32, Device::meta());
  EXPECT_EQ(x.nbytes(), std::size_t{1} << 32);
  EXPECT_EQ(test::allocated(), before);
  EXPECT_EQ(arange(0, 5, 1, DType::i64, Device::meta()).numel(), 5);
}

TEST(Arange, OfMoreNumbersThanThereCanBe) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROWS_SAYING(arange(least, most), ValueError, "has too many elements");
  EXPECT_THROWS_SAYING(arange(least, most, 4), ShapeError, "has too many bytes");
}

TEST(Arange, SpansEveryInteger) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t step = std::int64_t{1} << 62;
  EXPECT_EQ(arange(least, most, step).to_vector<std::int64_t>(), (std::vector<std::int64_t>{least, -step, 0, step}));
}

TEST(Arange, OfFloats) {
  EXPECT_EQ(arange(0.5, 3.5).to_vector<double>(), (std::vector<double>{0.5, 1.5, 2.5}));
  EXPECT_EQ(arange(1.0, 0.0, -0.25, DType::f64).to_vector<double>(), (std::vector<double>{1, 0.75, 0.5, 0.25}));
  EXPECT_EQ(arange(0.0, 1.0, 0.4).shape(), (Shape{3}));
  EXPECT_THROWS_SAYING(arange(0.0, 1.0, -1.0), ValueError, "arange: arange from 0 to 1 cannot step by -1");
  EXPECT_THROWS_SAYING(arange(0.0, 1.0, 0.0), ValueError, "cannot step by 0");
  EXPECT_THROWS_SAYING(arange(0.5, 1.5, 1.0, DType::i64), DTypeError, "whole numbers need whole bounds");
}

TEST(Full, TakesNoNumberThatTheDTypeLacks) {
  EXPECT_THROWS_SAYING(full({1}, 300, DType::u8), DTypeError, "full: the number 300 is no u8");
  EXPECT_THROWS_SAYING(full({1}, 1.5, DType::i64), DTypeError, "full: the number 1.5 is no i64");
}

}  // namespace
}  // namespace bytetape
