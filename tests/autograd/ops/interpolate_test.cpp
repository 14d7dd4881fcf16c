#include "bytetape/autograd/ops/images/interpolate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "tests/autograd/ops/images.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

constexpr auto bilinear = InterpolationMode::bilinear;
Tensor row(const std::vector<double>& values) {
  return from_vector<double>(values, {1, 1, 1, static_cast<std::int64_t>(values.size())});
}
std::vector<double> of_row(const std::vector<double>& values, InterpolateOptions options) {
  return interpolate(row(values), options).to_vector<double>();
}

// The examples in the documentation of torch.nn.Upsample.
TEST(Interpolate, GivesPyTorchsValues) {
  const Tensor x = from_vector<double>({1, 2, 3, 4}, {1, 1, 2, 2});
  EXPECT_EQ(interpolate(x, {.scale_factor = 2}).to_vector<double>(),
            (std::vector<double>{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
  EXPECT_EQ(interpolate(x, {.scale_factor = 2, .mode = bilinear}).to_vector<double>(),
            (std::vector<double>{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}));
  const double third = 1.0 / 3;
  EXPECT_TRUE(
      test::all_close(interpolate(x, {.scale_factor = 2, .mode = bilinear, .align_corners = true}).to_vector<double>(),
                      {1, 1 + third, 2 - third, 2, 2 - third, 2, 2 + third, 3 - third, 2 + third, 3 - third, 3,
                       3 + third, 3, 3 + third, 4 - third, 4}));
}

TEST(Interpolate, TakesStepsByTheFactorAndNotByTheSizes) {
  EXPECT_EQ(of_row({0, 1, 2, 3, 4}, {.size = {1, 6}}), (std::vector<double>{0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(of_row({0, 1, 2, 3, 4}, {.scale_factor = {1, 1.3}}), (std::vector<double>{0, 0, 1, 2, 3, 3}));
  EXPECT_TRUE(
      test::all_close(of_row({0, 1, 2}, {.scale_factor = {1, 1.5}, .mode = bilinear}), {0, 0.5, 7.0 / 6, 11.0 / 6}));
  EXPECT_TRUE(test::all_close(of_row({0, 1, 2}, {.size = {1, 4}, .mode = bilinear}), {0, 0.625, 1.375, 2}));
}

TEST(Interpolate, LeavesASizeAloneThatStays) {
  for (const InterpolationMode mode : {InterpolationMode::nearest, bilinear}) {
    EXPECT_EQ(of_row({3, 1, 4}, {.scale_factor = {1, 1.3}, .mode = mode}), (std::vector<double>{3, 1, 4}));
    EXPECT_EQ(of_row({3, 1, 4}, {.size = {1, 3}, .mode = mode}), (std::vector<double>{3, 1, 4}));
  }
  EXPECT_EQ(of_row({3, 1, 4}, {.scale_factor = {1, 2.2}}), (std::vector<double>{3, 3, 1, 1, 4, 4}));
}

// In f32 41 * (3 / 123) is below 1, and so it is in PyTorch.
TEST(Interpolate, FindsTheNearestInSinglePrecision) {
  std::int64_t rounded = 0;
  for (const std::int64_t n : {3, 7, 10}) {
    const std::vector<double> all = arange(n, DType::f64).to_vector<double>();
    for (std::int64_t m = 1; m <= 300; ++m) {
      const auto step = static_cast<float>(static_cast<double>(n) / static_cast<double>(m));
      std::vector<double> expected;
      for (std::int64_t o = 0; o < m; ++o) {
        const auto at = static_cast<std::int64_t>(static_cast<float>(o) * step);
        rounded += at != o * n / m;
        expected.push_back(static_cast<double>(at));
      }
      EXPECT_EQ(of_row(all, {.size = {1, m}}), expected) << n << " to " << m;
    }
  }
  EXPECT_GT(rounded, 0);
}

// A weight of zero times infinity would be NaN.
TEST(Interpolate, DoesNotLookAtPixelsThatCountForNothing) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(of_row({1, inf, 3}, {.size = {1, 3}, .mode = bilinear}), (std::vector<double>{1, inf, 3}));
  EXPECT_EQ(of_row({1, 2, inf}, {.size = {1, 5}, .mode = bilinear, .align_corners = true}),
            (std::vector<double>{1, 1.5, 2, inf, inf}));
}

TEST(Interpolate, KeepsTheMemoryFormatAndNothingForBackward) {
  for (const auto& layout : {"channels-last", "row-major"}) {
    const Tensor x = test::image(layout, {2, 3, 4, 4}).detach().set_requires_grad();
    const Tensor y = interpolate(x, {.scale_factor = 2, .mode = bilinear});
    EXPECT_EQ(is_channels_last(y.shape(), y.strides()), is_channels_last(x.shape(), x.strides()));
    EXPECT_EQ(test::held_as(memory::Role::saved), 0u);
    EXPECT_EQ(grad({sum(y)}, {x})[0].strides(), x.strides());
  }
}

// Longer than what is looked up of a line on the CPU, and than what is summed of it at once.
TEST(Interpolate, LinesMayBeLong) {
  constexpr std::int64_t n = 3000;
  const auto x = randn({n}, DType::f64).to_vector<double>(), gy = randn({2 * n}, DType::f64).to_vector<double>();
  std::vector<double> y(2 * n), gx(n);
  for (std::int64_t o = 0; o < 2 * n; ++o) {
    const std::int64_t near = o / 2, far = std::clamp<std::int64_t>(o % 2 ? near + 1 : near - 1, 0, n - 1);
    for (const auto& [i, weight] : {std::pair(near, 0.75), {far, 0.25}}) {
      y[static_cast<std::size_t>(o)] += weight * x[static_cast<std::size_t>(i)];
      gx[static_cast<std::size_t>(i)] += weight * gy[static_cast<std::size_t>(o)];
    }
  }
  for (const int dim : {2, 3}) {
    Shape from{1, 2, 1, 1}, to{1, 2, 1, 1};
    from[dim] = n;
    to[dim] = 2 * n;
    InterpolateOptions options{.size = {to[2], to[3]}, .mode = bilinear};
    for (const auto& layout : {channels_last, +[](const Tensor& t) { return contiguous(t); }}) {
      const auto image_of = [&](const std::vector<double>& line, Shape shape) {
        shape[1] = 1;
        const Tensor one = from_vector<double>(line, shape);
        shape[1] = 2;
        return layout(expand(one, shape));
      };
      const Tensor images = image_of(x, from).set_requires_grad(), result = interpolate(images, options);
      const Tensor gradient = grad({result}, {images}, {.seeds = {image_of(gy, to)}})[0];
      for (const int channel : {0, 1}) {
        EXPECT_TRUE(test::all_close(select(result, 1, channel).to_vector<double>(), y));
        EXPECT_TRUE(test::all_close(select(gradient, 1, channel).to_vector<double>(), gx));
      }
    }
  }
}

TEST(Interpolate, SaysWhatIsWrong) {
  const Tensor x = ones({1, 1, 4, 4});
  EXPECT_THROWS_SAYING(interpolate(x, {.scale_factor = std::nan("")}), ValueError, "must be positive, got (nan, nan)");
  EXPECT_THROWS_SAYING(interpolate(x, {.scale_factor = 1e300}), ShapeError, "expected an output size from 1 to");
  EXPECT_THROWS_SAYING(interpolate(x, {.size = std::int64_t{1} << 40}), ShapeError,
                       "expected an output size from 1 to");
}

// A factor that is not quite 2 is taken as 2 by nearest alone, as in PyTorch.
TEST(Interpolate, TakesAFactorByTheDigitUnlessNearestDoubles) {
  const Tensor x = test::random_tensor({1, 1, 1, 3});
  const auto v = x.to_vector<double>();
  const Tensor y = interpolate(x, {.scale_factor = {1, 2.05}, .mode = InterpolationMode::bilinear});
  ASSERT_EQ(y.size(3), 6);
  for (int i = 0; i < 6; ++i) {
    const double at = std::max((i + 0.5) / 2.05 - 0.5, 0.0), first = std::min(std::floor(at), 2.0), t = at - first;
    const auto k = static_cast<std::size_t>(first);
    EXPECT_NEAR(y.to_vector<double>()[static_cast<std::size_t>(i)],
                v[k] * (1 - t) + v[std::min<std::size_t>(k + 1, 2)] * t, 1e-12)
        << i;
  }
  const Tensor nearest = interpolate(x, {.scale_factor = {1, 2.05}});
  EXPECT_EQ(nearest.to_vector<double>(), (std::vector<double>{v[0], v[0], v[1], v[1], v[2], v[2]}));
}

}  // namespace
}  // namespace bytetape
