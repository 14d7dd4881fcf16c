#include "bytetape/core/dtype.h"

#include <cmath>
#include <limits>

#include "bytetape/core/scalar.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

// In constant expressions: a device's compiler may take the conversions as they are.
static_assert(BFloat16(1.00390625f).bits == 0x3f80 && float{BFloat16(-2.5f)} == -2.5f);
static_assert(Half(65520.0f).bits == 0x7c00 && float{Half(0x1p-24f)} == 0x1p-24f && float{Half(-2.5f)} == -2.5f);

constexpr float inf = std::numeric_limits<float>::infinity();

TEST(DType, NamesAndSizes) {
  const std::vector<std::pair<DType, std::string>> names{
      {DType::f64, "f64"}, {DType::f32, "f32"}, {DType::bf16, "bf16"}, {DType::f16, "f16"},
      {DType::i64, "i64"}, {DType::i32, "i32"}, {DType::u8, "u8"},     {DType::boolean, "bool"}};
  for (const auto& [t, name] : names) EXPECT_EQ(detail::concat(t), name);
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_TRUE(is_floating(DType::f16));
  EXPECT_FALSE(is_floating(DType::i64));
}

template <class T>
T from_bits(std::uint32_t bits) {
  T v;
  v.bits = static_cast<std::uint16_t>(bits);
  return v;
}

template <class T>
void every_value_survives_a_float() {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T v = from_bits<T>(bits);
    const float f = v;
    if (std::isnan(f))
      ASSERT_TRUE(std::isnan(static_cast<float>(T(f)))) << bits;
    else
      ASSERT_EQ(T(f).bits, bits);
  }
}

/// Between two neighbours: the nearer one, and in the middle the one whose last bit is 0.
template <class T>
void rounds_to_nearest_even(std::uint32_t largest) {
  for (std::uint32_t bits = 0; bits < largest; ++bits) {
    const float low = from_bits<T>(bits), high = from_bits<T>(bits + 1), middle = low + (high - low) / 2;
    ASSERT_EQ(T(middle).bits, bits + bits % 2);
    ASSERT_EQ(T(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(T(std::nextafter(middle, high)).bits, bits + 1);
    ASSERT_EQ(T(-middle).bits, 0x8000 | (bits + bits % 2));
  }
}

TEST(Half, EveryValueSurvivesAFloat) { every_value_survives_a_float<Half>(); }
TEST(Half, RoundsToNearestEven) { rounds_to_nearest_even<Half>(0x7bff); }
TEST(Half, HasItsLimits) {
  EXPECT_EQ(static_cast<float>(from_bits<Half>(0x7bff)), 65504.f);
  EXPECT_EQ(static_cast<float>(from_bits<Half>(1)), 0x1p-24f);
  EXPECT_EQ(static_cast<float>(from_bits<Half>(0x3c00)), 1.f);
  EXPECT_EQ(static_cast<float>(Half(65519.f)), 65504.f);
  EXPECT_EQ(static_cast<float>(Half(65520.f)), inf);
  EXPECT_EQ(static_cast<float>(Half(-1e9f)), -inf);
  EXPECT_EQ(Half(-0.f).bits, 0x8000);
}

TEST(BFloat16, EveryValueSurvivesAFloat) { every_value_survives_a_float<BFloat16>(); }
TEST(BFloat16, RoundsToNearestEven) {
  // The smallest floats have no middle between neighbours of bfloat16 that is exact in a float's subnormals: they do,
  // as bfloat16 has 16 bits fewer.
  rounds_to_nearest_even<BFloat16>(0x7f7f);
}
TEST(BFloat16, HasItsLimits) {
  EXPECT_EQ(static_cast<float>(BFloat16(3.4e38f)), inf);
  EXPECT_EQ(static_cast<float>(BFloat16(inf)), inf);
  EXPECT_EQ(static_cast<float>(BFloat16(1.00390625f)), 1.f);  // half way: to even
}

TEST(Scalar, KeepsIntegersExact) {
  constexpr auto big = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(Scalar(big).to<std::int64_t>(), big);
  EXPECT_TRUE(Scalar(3).is_integral());
  EXPECT_FALSE(Scalar(3.0).is_integral());
  EXPECT_EQ(Scalar(-2.75).to<int>(), -2);
  EXPECT_TRUE(Scalar(0.5).to<bool>());
  EXPECT_EQ(static_cast<float>(Scalar(1e6).to<Half>()), inf);
  EXPECT_EQ(detail::concat(Scalar(7), " ", Scalar(0.5)), "7 0.5");
  EXPECT_EQ(detail::concat(Scalar((std::int64_t{1} << 53) + 1)), "9007199254740993");
}

TEST(Scalar, FitsADtypeThatHasTheNumber) {
  EXPECT_TRUE(fits(0.1, DType::f16));
  EXPECT_TRUE(fits(1e300, DType::f32));
  EXPECT_TRUE(fits(3.0, DType::i32));
  EXPECT_FALSE(fits(3.5, DType::i32));
  EXPECT_FALSE(fits(inf, DType::i64));
  EXPECT_FALSE(fits(std::nan(""), DType::i64));
  EXPECT_FALSE(fits(1e19, DType::i64));
  EXPECT_FALSE(fits(0x1p63, DType::i64));
  EXPECT_TRUE(fits(0x1p62, DType::i64));
  EXPECT_FALSE(fits(std::int64_t{1} << 31, DType::i32));
  EXPECT_TRUE(fits(-(std::int64_t{1} << 31), DType::i32));
  EXPECT_FALSE(fits(-1, DType::u8));
  EXPECT_TRUE(fits(255, DType::u8));
  EXPECT_FALSE(fits(256, DType::u8));
  EXPECT_TRUE(fits(true, DType::boolean));
  EXPECT_FALSE(fits(2, DType::boolean));
}

// Every pair of dtypes, through the copy kernel.
TEST(DType, ConvertsBetweenAll) {
  const std::vector<double> values{0, 1, 3, 100};
  const DType all[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                       DType::i64, DType::i32, DType::u8,   DType::boolean};
  for (const DType from : all) {
    const Tensor x = test::make_tensor(values, {4}, from);
    EXPECT_EQ(x.to_vector<double>(), from == DType::boolean ? (std::vector<double>{0, 1, 1, 1}) : values) << from;
    EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{false, true, true, true})) << from;
    EXPECT_EQ(x.to_vector<std::uint8_t>()[3], from == DType::boolean ? 1 : 100) << from;
  }
}

}  // namespace
}  // namespace bytetape
