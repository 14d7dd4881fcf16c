#include "bytetape/data/digits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace bytetape::data {
namespace {

std::vector<std::uint8_t> image(const Mnist& m, std::int64_t i) {
  const auto* p = std::as_const(m.images).data<std::uint8_t>() + i * 784;
  return {p, p + 784};
}

TEST(Digits, HaveMnistsForm) {
  const Mnist m = generated_digits(5, 3);
  EXPECT_EQ(m.name, "generated digits");
  EXPECT_EQ(m.images.shape(), (Shape{5, 28, 28}));
  EXPECT_EQ(m.images.dtype(), DType::u8);
  EXPECT_EQ(m.images.storage().role(), memory::Role::input);
  EXPECT_EQ(m.labels.shape(), (Shape{5}));
  EXPECT_EQ(m.labels.dtype(), DType::i64);
  EXPECT_EQ(generated_digits(0, 3).images.shape(), (Shape{0, 28, 28}));
  EXPECT_THROW(generated_digits(-1, 3), ValueError);
}

TEST(Digits, AnImageDependsOnSeedAndNumberAlone) {
  const Mnist few = generated_digits(20, 11), many = generated_digits(50, 11), other = generated_digits(20, 12);
  int same = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(image(few, i), image(many, i));
    EXPECT_EQ(few.labels.to_vector<std::int64_t>()[static_cast<std::size_t>(i)],
              many.labels.to_vector<std::int64_t>()[static_cast<std::size_t>(i)]);
    same += image(few, i) == image(other, i);
  }
  EXPECT_EQ(same, 0);
}

// FNV-1a of the pixels: a change here changes what every machine draws.
TEST(Digits, AreTheSameBytesEverywhere) {
  const Mnist m = generated_digits(1000, 1);
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto* p = std::as_const(m.images).data<std::uint8_t>();
  for (std::int64_t i = 0; i < m.images.numel(); ++i) hash = (hash ^ p[i]) * 0x100000001b3;
  EXPECT_EQ(hash, 10889647264230799043ULL);
}

TEST(Digits, AreSpreadOverTheClasses) {
  constexpr std::int64_t n = 5000;
  std::array<int, 10> count{};
  for (std::int64_t label : generated_digits(n, 5).labels.to_vector<std::int64_t>())
    ++count.at(static_cast<std::size_t>(label));
  for (int c : count) EXPECT_NEAR(c, n / 10, 110);  // five standard deviations
}

// The nearest of ten mean images tells most digits apart, and yet far from all: the task is neither noise nor trivial.
TEST(Digits, CanBeLearned) {
  const Mnist train = generated_digits(3000, 21), test = generated_digits(1000, 22);
  std::array<std::array<double, 784>, 10> mean{};
  std::array<int, 10> count{};
  const auto train_labels = train.labels.to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < 3000; ++i) {
    const auto label = static_cast<std::size_t>(train_labels[static_cast<std::size_t>(i)]);
    const auto pixels = image(train, i);
    for (std::size_t k = 0; k < 784; ++k) mean[label][k] += pixels[k];
    ++count[label];
  }
  int right = 0;
  const auto labels = test.labels.to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto pixels = image(test, i);
    std::array<double, 10> distance{};
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t k = 0; k < 784; ++k) {
        const double d = mean[c][k] / count[c] - pixels[k];
        distance[c] += d * d;
      }
    const auto nearest = std::min_element(distance.begin(), distance.end()) - distance.begin();
    right += nearest == labels[static_cast<std::size_t>(i)];
  }
  EXPECT_GT(right, 450);
  EXPECT_LT(right, 900);
}

}  // namespace
}  // namespace bytetape::data
