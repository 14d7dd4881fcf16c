#include "bytetape/autograd/ops/images/pool.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "tests/autograd/ops/images.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::image;
using test::layouts;
constexpr double inf = std::numeric_limits<double>::infinity();

struct Case {
  Shape shape;
  Pool2dParams params;
};
const Case cases[] = {
    {{2, 3, 6, 8}, {}},                                                           // tiles exactly
    {{1, 5, 7, 9}, {}},                                                           // leaves a border
    {{2, 4, 7, 6}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},      // overlaps
    {{2, 3, 8, 9}, {.kernel = {2, 3}, .stride = {3, 4}}},                         // skips some
    {{1, 2, 4, 5}, {.kernel = {4, 1}, .stride = {1, 1}, .padding = {2, 0}}},      // oblong
    {{3, 1, 5, 5}, {.kernel = {1, 1}, .stride = {1, 1}}},                         // the identity
    {{1, 70, 5, 4}, {.kernel = {2, 2}, .stride = {1, 2}, .padding = {1, 1}}},     // more channels than lanes
    {{1, 2, 20, 19}, {.kernel = {17, 17}, .stride = {2, 1}, .padding = {3, 8}}},  // indices past a byte
};

/// Where in x (flat, row-major) the largest element of each window of y (row-major) is: the definition, word for word.
struct Reference {
  Shape y_shape;
  std::vector<std::size_t> chosen;

  Reference(const Tensor& x, Pool2dParams p) : y_shape(x.shape()) {
    if (p.stride == 0) p.stride = p.kernel;
    const auto values = x.to_vector<double>();
    const std::int64_t height = x.size(2), width = x.size(3);
    for (int i = 0; i < 2; ++i) y_shape[2 + i] = (x.size(2 + i) + 2 * p.padding[i] - p.kernel[i]) / p.stride[i] + 1;
    for (std::int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane)
      for (std::int64_t oh = 0; oh < y_shape[2]; ++oh)
        for (std::int64_t ow = 0; ow < y_shape[3]; ++ow) {
          double best = -inf;
          std::size_t at = 0;
          for (std::int64_t h = oh * p.stride[0] - p.padding[0], i = 0; i < p.kernel[0]; ++i, ++h)
            for (std::int64_t w = ow * p.stride[1] - p.padding[1], j = 0; j < p.kernel[1]; ++j, ++w) {
              if (h < 0 || h >= height || w < 0 || w >= width) continue;
              const auto here = static_cast<std::size_t>((plane * height + h) * width + w);
              if (values[here] > best) best = values[at = here];
            }
          chosen.push_back(at);
        }
  }
  std::vector<double> gather(const Tensor& x) const {
    const auto values = x.to_vector<double>();
    std::vector<double> y;
    for (std::size_t at : chosen) y.push_back(values[at]);
    return y;
  }
  std::vector<double> scatter(const Tensor& gy, const Tensor& x) const {
    const auto g = gy.to_vector<double>();
    std::vector<double> gx(static_cast<std::size_t>(x.numel()));
    for (std::size_t i = 0; i < g.size(); ++i) gx[chosen[i]] += g[i];
    return gx;
  }
};

std::string name(const Case& c, const std::string& layout) {
  return detail::concat(layout, " ", c.shape, " kernel ", c.params.kernel[0], " x ", c.params.kernel[1]);
}

TEST(MaxPool2d, PicksTheLargestOfEachWindowInEveryLayout) {
  for (const Case& c : cases)
    for (const auto& layout : layouts)
      for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        SCOPED_TRACE(name(c, layout) + " " + to_string(dtype));
        const Tensor x = image(layout, c.shape, dtype), y = max_pool2d(x, c.params);
        const Reference reference(x, c.params);
        EXPECT_EQ(y.shape(), reference.y_shape);
        EXPECT_EQ(y.to_vector<double>(), reference.gather(x));
      }
}

TEST(MaxPool2d, SendsTheGradientBackToWhatWasPicked) {
  for (const Case& c : cases)
    for (const auto& layout : layouts) {
      if (layout == "repeated") continue;  // equal elements
      SCOPED_TRACE(name(c, layout));
      Tensor x = image(layout, c.shape).detach().set_requires_grad();
      const Tensor y = max_pool2d(x, c.params);
      for (const auto& seed_layout : layouts) {
        const Tensor gy = image(seed_layout, y.shape());
        const Tensor gx = grad({y}, {x}, {.seeds = {gy}, .retain_graph = true})[0];
        EXPECT_TRUE(test::all_close(gx.to_vector<double>(), Reference(x, c.params).scatter(gy, x))) << seed_layout;
      }
    }
}

TEST(MaxPool2d, SavesAByteForAPlaceInAWindowOfUpTo255) {
  const Tensor x = image("channels-last", {2, 512, 16, 17}).detach().set_requires_grad();
  for (const Size2 kernel : {Size2(15, 17), Size2(16, 16)}) {
    const std::size_t before = test::allocated();
    const Tensor y = max_pool2d(x, {.kernel = kernel, .stride = {1, 1}});
    const std::size_t places = static_cast<std::size_t>(y.numel()) * (kernel.h == 15 ? 1 : 4);
    EXPECT_EQ(test::allocated() - before, test::rounded(y.nbytes()) + test::rounded(places)) << kernel;
  }
}

TEST(MaxPool2d, AppliesReluAsBeforeIt) {
  const double nan = std::nan("");
  for (const Size2 kernel : {Size2(1, 2), Size2(3, 3), Size2(15, 17), Size2(16, 17)})
    for (const auto& layout : {"row-major", "channels-last"}) {
      SCOPED_TRACE(detail::concat(kernel, ' ', layout));
      Tensor x = image(layout, {2, 16, 17, 18}) - 1.5;  // most are negative
      index(x, {0, 0, 0, 0}) = nan;
      index(x, {1, 3, 2, 5}) = 0.0;
      x = x.detach().set_requires_grad();
      const auto bits = [](const Tensor& t) {
        std::vector<std::uint64_t> all;
        for (const double v : t.to_vector<double>()) all.push_back(std::bit_cast<std::uint64_t>(v));
        return all;
      };
      const Tensor y = max_pool2d(x, {.kernel = kernel, .stride = 1}, Activation::relu),
                   expected = max_pool2d(relu(x), {.kernel = kernel, .stride = 1});
      EXPECT_EQ(bits(y), bits(expected));
      const Tensor seed = test::random_tensor(y.shape()).set_requires_grad();
      const auto grads = [&](const Tensor& of) {
        const Tensor gx = grad({of}, {x}, {.seeds = {seed}, .create_graph = true})[0];
        return std::pair(gx.to_vector<double>(), grad({sum(gx * gx)}, {seed})[0].to_vector<double>());
      };
      EXPECT_EQ(grads(y), grads(expected));
    }
  EXPECT_THROWS_SAYING(max_pool2d(ones({1, 1, 2, 2}), {}, Activation::gelu_tanh), ValueError, "relu");
}

// Sums of up to nine bf16 gradients are rounded once, at the end.
TEST(MaxPool2d, SumsHalfPrecisionGradientsInSinglePrecision) {
  const Pool2dParams p{.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  Tensor x = image("channels-last", {2, 4, 6, 6}, DType::bf16).detach().set_requires_grad();
  const Tensor y = max_pool2d(x, p), gy = image("channels-last", y.shape(), DType::bf16);
  const Tensor gx = grad({y}, {x}, {.seeds = {gy}})[0];
  EXPECT_TRUE(test::all_close(gx.to_vector<double>(), Reference(x, p).scatter(gy, x), 1.0 / 256));
}

// The Hessian of sum(w * y^2) times v, against a difference of gradients.
TEST(MaxPool2d, CanBeDifferentiatedTwice) {
  for (const Case& c : cases) {
    SCOPED_TRACE(name(c, "channels-last"));
    const Tensor values = image("channels-last", c.shape), v = image("row-major", c.shape);
    const Tensor w = randn(Reference(values, c.params).y_shape, DType::f64);
    const auto gradient = [&](Tensor x, bool create) {
      const Tensor y = max_pool2d(x.set_requires_grad(), c.params);
      return std::pair(x, grad({sum(w * y * y)}, {x}, {.create_graph = create})[0]);
    };
    const auto [x, g] = gradient(clone(values), true);
    const Tensor hv = grad({sum(g * v)}, {x})[0];
    const double eps = 1e-6;
    const Tensor above = gradient(values + v * eps, false).second, below = gradient(values - v * eps, false).second;
    EXPECT_TRUE(test::all_close(hv, (above - below) / (2 * eps), 1e-6, 1e-6));
    // w and y are linear in what follows: a third derivative by w's place is the gather itself.
    const Tensor u = randn(g.shape(), DType::f64).set_requires_grad();
    const Tensor seed = clone(w).set_requires_grad();
    const Tensor gx = grad({max_pool2d(x, c.params)}, {x}, {.seeds = {seed}, .create_graph = true})[0];
    const Tensor gathered = grad({sum(gx * u)}, {seed}, {.create_graph = true})[0];
    EXPECT_EQ(gathered.to_vector<double>(), Reference(x, c.params).gather(u));
    const Tensor gu = grad({gathered}, {u}, {.seeds = {w}})[0];
    EXPECT_TRUE(test::all_close(gu.to_vector<double>(), Reference(x, c.params).scatter(w, x)));
  }
}

TEST(MaxPool2d, StepsByTheKernelUnlessToldOtherwise) {
  const Tensor x = randn({1, 2, 9, 12});
  EXPECT_EQ(max_pool2d(x, {}).shape(), (Shape{1, 2, 4, 6}));
  EXPECT_EQ(max_pool2d(x, {.kernel = {3, 4}}).shape(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(max_pool2d(x, {.kernel = 3, .stride = 1}).shape(), (Shape{1, 2, 7, 10}));
  EXPECT_EQ(max_pool2d(x, {.kernel = 3, .padding = {1, 0}}).to_vector<float>(),
            max_pool2d(x, {{3, 3}, {3, 3}, {1, 0}}).to_vector<float>());
}

TEST(MaxPool2d, KeepsTheMemoryLayout) {
  const Tensor x = image("channels-last", {2, 3, 4, 4}).detach().set_requires_grad(), y = max_pool2d(x, {});
  EXPECT_EQ(y.strides(), channels_last_strides(y.shape()));
  EXPECT_EQ(grad({sum(y)}, {x})[0].strides(), x.strides());
  EXPECT_TRUE(max_pool2d(image("row-major", {2, 3, 4, 4}), {}).is_contiguous());
}

TEST(MaxPool2d, LetsNaNWin) {
  const double nan = std::nan("");
  Tensor x = from_vector<double>({1, nan, 2, -inf, -inf, -inf, 3, nan, nan, -inf, -inf, -inf}, {1, 1, 2, 6})
                 .set_requires_grad();
  const Tensor y = max_pool2d(x, {});
  EXPECT_TRUE(test::all_close(y.to_vector<double>(), {nan, nan, -inf}));
  // Of two NaNs the last, of equals the first: as PyTorch.
  EXPECT_EQ(grad({y}, {x}, {.seeds = {from_vector<double>({5, 6, 7}, {1, 1, 1, 3})}})[0].to_vector<double>(),
            (std::vector<double>{0, 0, 0, 0, 7, 0, 0, 5, 6, 0, 0, 0}));
}

TEST(MaxPool2d, KeepsOneByteAnOutputAndOnlyForBackward) {
  Tensor x = randn({4, 16, 16, 16});
  const std::size_t before = test::allocated(), y_bytes = 4 * 16 * 8 * 8 * sizeof(float);
  {
    const Tensor y = max_pool2d(x, {});
    EXPECT_EQ(test::allocated() - before, y_bytes);
  }
  const Tensor y = max_pool2d(x.set_requires_grad(), {});
  EXPECT_EQ(test::allocated() - before, y_bytes + y_bytes / 4);
  EXPECT_EQ(test::held_as(memory::Role::saved), y_bytes / 4);
}

TEST(MaxPool2d, SaysWhatIsWrong) {
  const Tensor x = randn({2, 3, 4, 5});
  EXPECT_THROWS_SAYING(max_pool2d(randn({3, 4, 5}), {}), ShapeError,
                       "max_pool2d: expected x (n, c, h, w), got f32(3, 4, 5)");
  EXPECT_THROWS_SAYING(max_pool2d(ones({1, 1, 4, 4}, DType::i64), {}), DTypeError, "floating");
  EXPECT_THROWS_SAYING(max_pool2d({}, {}), ValueError, "undefined");
  const std::int64_t huge = std::int64_t{1} << 40;
  for (const bool of_h : {true, false}) {  // the other dim is right
    const auto either = [&](std::int64_t wrong, std::int64_t right) {
      return of_h ? Size2{wrong, right} : Size2{right, wrong};
    };
    const auto says = [&](const Pool2dParams& p, const std::string& words) {
      return test::throws_saying<ValueError>([&] { max_pool2d(x, p); }, words);
    };
    EXPECT_TRUE(says({.kernel = either(0, 2), .stride = 1}, "at least 1, got kernel ")) << of_h;
    EXPECT_TRUE(says({.stride = either(-1, 1)}, detail::concat("stride ", either(-1, 1)))) << of_h;
    EXPECT_TRUE(says({.padding = either(2, 0)}, "half the kernel, got padding ")) << of_h;
    EXPECT_TRUE(says({.padding = either(-1, 0)}, "half the kernel, got padding ")) << of_h;
    EXPECT_TRUE(says({.stride = either(huge, 1)}, "strides must be below 2^31")) << of_h;
    EXPECT_THROWS_SAYING(max_pool2d(x, {.kernel = either(6, 2)}), ShapeError, "does not fit into f32(2, 3, 4, 5)");
    const Tensor flat = of_h ? randn({2, 3, 0, 5}) : randn({2, 3, 4, 0});
    EXPECT_THROWS_SAYING(max_pool2d(flat, {}), ShapeError, "there is nothing to pool");
  }
  EXPECT_THROWS_SAYING(max_pool2d(x, {.kernel = {huge, huge}, .padding = {huge / 2, huge / 2}}), ValueError,
                       "too many elements");
}

TEST(AvgPool2d, OfOnesIsOneOrThePartThatIsNoPadding) {
  const Pool2dParams p{.kernel = 3, .stride = 1, .padding = 1};
  const Tensor x = ones({1, 1, 3, 4});
  EXPECT_EQ(avg_pool2d(x, p, false).to_vector<float>(), x.to_vector<float>());
  const float corner = 4.0f / 9, edge = 6.0f / 9;
  EXPECT_EQ(avg_pool2d(x, p).to_vector<float>(),
            (std::vector<float>{corner, edge, edge, corner, edge, 1, 1, edge, corner, edge, edge, corner}));
}

// One thread would add up all of it, in another order.
TEST(AvgPool2d, OfOneWindowThatIsTheImageIsItsMean) {
  const Tensor x = rand({2, 3, 200, 300}).set_requires_grad();
  const Tensor y = avg_pool2d(x, {.kernel = {200, 300}});
  EXPECT_EQ(y.shape(), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(y.to_vector<float>(), mean(x, {2, 3}, true).to_vector<float>());
}

TEST(AvgPool2d, KeepsTheMemoryFormatAndNothingForBackward) {
  for (const auto& layout : {"channels-last", "row-major"}) {
    const Tensor x = image(layout, {2, 3, 4, 4}).detach().set_requires_grad();
    for (const Tensor& y : {avg_pool2d(x, {}), adaptive_avg_pool2d(x, 3)}) {
      EXPECT_EQ(is_channels_last(y.shape(), y.strides()), is_channels_last(x.shape(), x.strides()));
      EXPECT_EQ(test::held_as(memory::Role::saved), 0u);
      EXPECT_EQ(grad({sum(y)}, {x})[0].strides(), x.strides());
    }
  }
}

TEST(AvgPool2d, TakesMoreChannelsThanLanesAndGradientsInEveryLayout) {
  const Tensor x = image("channels-last", {2, 70, 7, 9}).detach().set_requires_grad();
  const Tensor y = avg_pool2d(x, {.kernel = 3, .stride = 2});
  const Tensor gy = image("row-major", y.shape());
  const auto gx = grad({y}, {x}, {.seeds = {gy}, .retain_graph = true})[0].to_vector<double>();
  EXPECT_EQ(grad({y}, {x}, {.seeds = {channels_last(gy)}})[0].to_vector<double>(), gx);
}

TEST(AdaptiveAvgPool2d, OfSizesThatDivideIsAvgPool2d) {
  const Tensor x = randn({2, 3, 6, 8}, DType::f64);
  EXPECT_TRUE(test::all_close(adaptive_avg_pool2d(x, {3, 2}), avg_pool2d(x, {.kernel = {2, 4}})));
  EXPECT_EQ(adaptive_avg_pool2d(x, {6, 8}).to_vector<double>(), x.to_vector<double>());
  EXPECT_EQ(adaptive_avg_pool2d(x, 1).to_vector<double>(), mean(x, {2, 3}).to_vector<double>());
}

// Only one window that is the whole image, and nothing else, is a mean.
TEST(AvgPool2d, OfAlmostTheWholeImageIsNoMeanOfIt) {
  const Tensor x = test::random_tensor({2, 3, 4, 6});
  for (const auto& [h, w] : {std::pair{4, 3}, {3, 6}, {4, 5}, {2, 6}}) {
    const Tensor y = avg_pool2d(x, {.kernel = {h, w}, .stride = 9});
    EXPECT_TRUE(test::all_close(y, mean(narrow(narrow(x, 2, 0, h), 3, 0, w), {2, 3}, true)));
  }
  const Tensor padded = avg_pool2d(x, {.kernel = {4, 6}, .stride = 9, .padding = 2});
  EXPECT_TRUE(test::all_close(padded, avg_pool2d(pad(x, {2, 2, 2, 2}), {.kernel = {4, 6}, .stride = 9})));
}

TEST(MaxPool2d, TakesStepsBelow2To31) {
  const Tensor x = randn({1, 1, 2, 2});
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(max_pool2d(x, {.kernel = 2, .stride = most}).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_THROWS_SAYING(max_pool2d(x, {.kernel = {most, 1}}), ShapeError, "does not fit into");
}

TEST(AdaptiveAvgPool2d, TakesSizesUpTo2To31) {
  const Tensor x = empty({1, 1, 4, 4}, DType::f32, Device::meta());
  for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    EXPECT_THROWS_SAYING(adaptive_avg_pool2d(x, {wrong, 2}), ValueError, "output_size must be");
    EXPECT_THROWS_SAYING(adaptive_avg_pool2d(x, {2, wrong}), ValueError, "output_size must be");
  }
}

}  // namespace
}  // namespace bytetape
