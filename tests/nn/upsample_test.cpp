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

}  // namespace
}  // namespace bytetape
