#include "bytetape/data/normalize.h"

#include "bytetape/core/factories.h"
#include "tests/data/files.h"

namespace bytetape::data {
namespace {

Tensor u8(const Shape& shape) { return zeros(shape, DType::u8); }

TEST(Normalize, IsOfEachChannelOrOfAll) {
  const Normalize each{{0.25, 0.5, 0.75}, {1, 2, 4}}, all{0.5, 2};
  const std::vector<double> by_channel = normalized_pixels(u8({2, 3, 4, 5}), each);
  ASSERT_EQ(by_channel.size(), 3u * 256);
  for (std::size_t v = 0; v < 256; ++v) {
    const double x = static_cast<double>(v) / 255;
    EXPECT_EQ(by_channel[v], x - 0.25);
    EXPECT_EQ(by_channel[256 + v], (x - 0.5) / 2);
    EXPECT_EQ(by_channel[512 + v], (x - 0.75) / 4);
  }
  const std::vector<double> of_all = normalized_pixels(u8({2, 2, 4, 5}), all);
  for (std::size_t i = 0; i < of_all.size(); ++i) EXPECT_EQ(of_all[i], (static_cast<double>(i % 256) / 255 - 0.5) / 2);
  EXPECT_EQ(normalized_pixels(u8({2, 4, 5}), all).size(), 256u);
}

TEST(Normalize, BadInputIsNamed) {
  EXPECT_EQ(error_of<ShapeError>([] {
              normalized_pixels(u8({2, 3, 4, 5}), {{0.5, 0.5}, 1});
            }),
            "mean of 2 and std of 1 channels do not fit u8(2, 3, 4, 5) on cpu");
  EXPECT_EQ(error_of<ShapeError>([] {
              normalized_pixels(u8({2, 4, 5}), {0, {1, 2, 3}});
            }),
            "mean of 1 and std of 3 channels do not fit u8(2, 4, 5) on cpu");
  EXPECT_EQ(error_of<ValueError>([] {
              normalized_pixels(u8({2, 2, 4, 5}), {0, {1, -2}});
            }),
            "expected std > 0, got -2");
  EXPECT_EQ(error_of<DTypeError>([] {
              normalized_pixels(zeros({2, 4, 5}), {});
            }),
            "expected u8 images to normalise, got f32(2, 4, 5) on cpu");
  EXPECT_EQ(error_of<ShapeError>([] { PerChannel{1, 2, 3, 4, 5, 6, 7, 8, 9}; }), "expected 1 to 8 channels, got 9");
}

}  // namespace
}  // namespace bytetape::data
