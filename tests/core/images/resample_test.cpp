#include "bytetape/core/images/resample.h"

#include <gtest/gtest.h>

#include "bytetape/core/error.h"

namespace bytetape::resample {
namespace {

Shape image(std::int64_t size) { return {1, 1, size, 1}; }

/// Every output is made of inputs that are there, and an input goes into the outputs that have it in them.
template <class Axis>
void expect_both_ways_alike(const Axis& axis) {
  for (std::int64_t o = 0; o < axis.outputs; ++o) {
    const Range inputs = axis.inputs_of(o);
    EXPECT_TRUE(0 <= inputs.begin && inputs.begin < inputs.end && inputs.end <= axis.inputs) << o;
    double sum = 0;
    for (std::int64_t i = 0; i < axis.inputs; ++i) {
      const Range outputs = axis.outputs_of(i);
      const bool there = inputs.begin <= i && i < inputs.end, back = outputs.begin <= o && o < outputs.end;
      EXPECT_EQ(there, back) << "input " << i << " of output " << o;
      if (there) sum += static_cast<double>(axis.weight(o, i)) / static_cast<double>(axis.divisor(o));
    }
    EXPECT_NEAR(sum, 1, 1e-14) << o;
  }
}

TEST(Resample, WindowsAreFoundFromBothSides) {
  for (std::int64_t kernel = 1; kernel <= 5; ++kernel)
    for (std::int64_t stride = 1; stride <= 6; ++stride)
      for (std::int64_t padding = 0; padding <= kernel / 2; ++padding)
        for (std::int64_t n = kernel; n <= 13; ++n) {
          SCOPED_TRACE(bytetape::detail::concat(n, " kernel ", kernel, " stride ", stride, " padding ", padding));
          const Windows windows({kernel, stride, padding}, image(n), image((n + 2 * padding - kernel) / stride + 1), 0,
                                false);
          expect_both_ways_alike(windows);
          Range outputs = windows.outputs_of(0);
          for (std::int64_t i = 0; i < n; ++i) {
            windows.advance(outputs, i);
            EXPECT_EQ(outputs.begin, windows.outputs_of(i).begin);
            EXPECT_EQ(outputs.end, windows.outputs_of(i).end);
          }
        }
}

TEST(Resample, AdaptiveWindowsAreFoundFromBothSides) {
  for (std::int64_t n = 1; n <= 17; ++n)
    for (std::int64_t m = 1; m <= 17; ++m) {
      SCOPED_TRACE(bytetape::detail::concat(n, " to ", m));
      expect_both_ways_alike(AdaptiveWindows(image(n), image(m), 0));
    }
}

constexpr InterpolateParams kinds[] = {
    {InterpolationMode::nearest, false}, {InterpolationMode::bilinear, false}, {InterpolationMode::bilinear, true}};

TEST(Resample, InterpolationIsFoundFromBothSides) {
  for (InterpolateParams p : kinds)
    for (std::int64_t n = 1; n <= 17; ++n)
      for (std::int64_t m = 1; m <= 40; ++m) {
        SCOPED_TRACE(bytetape::detail::concat(n, " to ", m));
        const auto from = static_cast<double>(n), to = static_cast<double>(m);
        p.steps[0] = !p.align_corners ? from / to : m > 1 ? (from - 1) / (to - 1) : 0;
        expect_both_ways_alike(Interpolation(p, image(n), image(m), 0));
      }
}

// By a factor steps are not those that the sizes would give.
TEST(Resample, InterpolationByFactorsIsFoundFromBothSides) {
  for (InterpolateParams p : kinds)
    for (std::int64_t n = 1; n <= 17; ++n)
      for (const double factor : {0.3, 0.77, 1.01, 1.5, 1.99, 2.6, 7.3}) {
        const auto m = static_cast<std::int64_t>(static_cast<double>(n) * factor);
        if (m == 0 || p.align_corners) continue;
        SCOPED_TRACE(bytetape::detail::concat(n, " by ", factor));
        p.steps[0] = 1 / factor;
        expect_both_ways_alike(Interpolation(p, image(n), image(m), 0));
      }
}

}  // namespace
}  // namespace bytetape::resample
