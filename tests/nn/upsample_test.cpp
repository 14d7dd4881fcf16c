#include "bytetape/nn/upsample.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Upsample, IsInterpolate) {
  const Tensor x = randn({2, 3, 4, 5});
  EXPECT_EQ(nn::Upsample({.scale_factor = 2})(x).shape(), (Shape{2, 3, 8, 10}));
  const InterpolateOptions options{.size = {7, 3}, .mode = InterpolationMode::bilinear, .align_corners = true};
  EXPECT_EQ(nn::Upsample(options)(x).to_vector<float>(), interpolate(x, options).to_vector<float>());
}

TEST(Upsample, DescribesItself) {
  EXPECT_EQ(nn::Upsample({.scale_factor = 2}).describe(), "Upsample(scale_factor=2x2, mode=nearest)");
  EXPECT_EQ(nn::Upsample({.size = {7, 3}, .mode = InterpolationMode::bilinear, .align_corners = true}).describe(),
            "Upsample(size=7x3, mode=bilinear, align_corners=true)");
}

TEST(PixelShuffle, TurnsChannelsIntoPixels) {
  nn::PixelShuffle shuffle(2);
  const Tensor y = shuffle(view(arange(16), {1, 8, 1, 2}));
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 4}));
  EXPECT_EQ(y.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}));
  const Tensor x = randn({2, 8, 3, 4});
  EXPECT_EQ(shuffle(channels_last(x)).to_vector<float>(), shuffle(x).to_vector<float>());
  EXPECT_EQ(shuffle.describe(), "PixelShuffle(2)");
}

TEST(PixelShuffle, RejectsBadInput) {
  EXPECT_THROWS_SAYING(nn::PixelShuffle(0), ValueError, "PixelShuffle needs a factor from 1 to 2^31 - 1, got 0");
  EXPECT_THROWS_SAYING(nn::PixelShuffle(std::int64_t{1} << 31), ValueError, "got 2147483648");
  EXPECT_NO_THROW(nn::PixelShuffle((std::int64_t{1} << 31) - 1));
  nn::PixelShuffle shuffle(2);
  EXPECT_THROWS_SAYING(shuffle(zeros({1, 6, 2, 2})), ShapeError,
                       "PixelShuffle expects (n, c, h, w) with c divisible by 4, got f32(1, 6, 2, 2)");
  EXPECT_THROWS_SAYING(shuffle(zeros({4, 2, 2})), ShapeError, "got f32(4, 2, 2)");
  EXPECT_THROWS_SAYING(shuffle({}), ShapeError, "got an undefined tensor");
}

}  // namespace
}  // namespace bytetape
