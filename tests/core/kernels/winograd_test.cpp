// Convolutions by Winograd's algorithm, against direct ones in f64.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/cpu/winograd/conv.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

using cpu::winograd::suits;
using test::random_tensor;

/// A convolution of 3x3 taps.
struct Case {
  Shape x;
  std::int64_t results;
  Size2 padding = 1;
};

/// Each takes another way: all filters transformed at first, or within a part; sums of all tiles, of chunks or of a
/// part.
const Case cases[] = {
    {{1, 32, 8, 16}, 32},         {{2, 32, 8, 8}, 48}, {{3, 16, 26, 26}, 64, 0},  // without padding
    {{2, 32, 7, 10}, 32, {2, 0}},                       // tiles at the lower and right edges are cut
    {{3, 32, 9, 7}, 80, {0, 2}},                        // 80 results are a panel and a part of one
    {{20, 32, 16, 16}, 32},                             // 320 tiles, more than a chunk
    {{5, 32, 32, 32}, 64},        {{8, 64, 4, 4}, 64},  // few tiles and many filters
    {{2, 144, 8, 8}, 208},                              // more filters than a cache holds
    {{3, 272, 5, 12}, 128},
};

struct Results {
  Tensor y, gx, gw, gb;
};

/// Runs a kernel in a workspace of exactly the planned size.
template <class Args>
void run(Plan (*make_plan)(const Args&), void (*kernel)(const Args&, void* workspace), const Args& args) {
  EXPECT_TRUE(suits(args));
  const Plan plan = make_plan(args);
  constexpr std::size_t beyond = 4096;
  auto* const memory = static_cast<char*>(std::aligned_alloc(64, (plan.workspace + beyond + 63) / 64 * 64));
  std::memset(memory, 0xff, plan.workspace + beyond);  // NaNs
  kernel(args, memory);
  for (std::size_t i = 0; i < beyond; ++i) ASSERT_EQ(memory[plan.workspace + i], '\xff') << "wrote past its workspace";
  std::free(memory);
}

Results run(const Case& c, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& gy) {
  using namespace cpu::winograd;
  const Conv2dParams p{.padding = c.padding};
  Results r{empty_like(gy), empty_like(x), empty_like(w), empty_like(b)};
  run(plan_conv2d, cpu::winograd::conv2d, Conv2dArgs{x.read(), w.read(), b.read(), r.y.write(), p});
  run(plan_input_grad, input_grad, Conv2dInputGradArgs{gy.read(), w.read(), r.gx.write(), p});
  run(plan_weight_grad, weight_grad, Conv2dWeightGradArgs{x.read(), gy.read(), r.gw.write(), r.gb.write(), p});
  return r;
}

Tensor gradient_of(const Case& c) {
  return channels_last(
      random_tensor({c.x[0], c.results, c.x[2] + 2 * c.padding.h - 2, c.x[3] + 2 * c.padding.w - 2}, DType::f32));
}
Tensor image_of(const Case& c) { return channels_last(random_tensor(c.x, DType::f32)); }
Tensor weight_of(const Case& c) { return random_tensor({c.results, c.x[1], 3, 3}, DType::f32); }

/// Expects each element to differ by at most 3e-5 of the values' root mean square, and their differences by 4e-6 in
/// root mean square.
void expect_close(const Tensor& got, const Tensor& expected, const char* what) {
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  double squares = 0, errors = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += b[i] * b[i];
    errors += (a[i] - b[i]) * (a[i] - b[i]);
    largest = std::max(largest, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : INFINITY);
  }
  const double rms = std::sqrt(squares / static_cast<double>(a.size()));
  EXPECT_LT(largest, 3e-5 * rms) << what;
  EXPECT_LT(std::sqrt(errors / static_cast<double>(a.size())), 4e-6 * rms) << what;
}

TEST(Winograd, IsCloseToADirectConvolution) {
  for (const Case& c : cases) {
    const Tensor x = image_of(c), gy = gradient_of(c), b = random_tensor({c.results}, DType::f32);
    const auto wide = [](const Tensor& t) { return to(t, DType::f64); };
    const Tensor x64 = wide(x).set_requires_grad(), w = weight_of(c), w64 = wide(w).set_requires_grad(),
                 b64 = wide(b).set_requires_grad();
    const Tensor y64 = conv2d(x64, w64, b64, {.padding = c.padding});
    const auto grads = grad({y64}, {x64, w64, b64}, {.seeds = {wide(gy)}});
    for (const Tensor& weight : {w, channels_last(w), permute(contiguous(permute(w, {1, 0, 3, 2})), {1, 0, 3, 2})}) {
      SCOPED_TRACE(testing::Message() << c.x << " to " << c.results << ", weight strides " << weight.strides());
      const Results r = run(c, x, weight, b, gy);
      expect_close(r.y, y64, "y");
      expect_close(r.gx, grads[0], "gx");
      expect_close(r.gw, grads[1], "gw");
      expect_close(r.gb, grads[2], "gb");
    }
  }
}

TEST(Winograd, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const Case& c : cases) {
    const Tensor x = image_of(c), w = weight_of(c), gy = gradient_of(c), b = random_tensor({c.results}, DType::f32);
    const Results one = test::with_threads(1, [&] { return run(c, x, w, b, gy); });
    for (const int threads : {2, 3, 16}) {
      const Results many = test::with_threads(threads, [&] { return run(c, x, w, b, gy); });
      for (const auto member : {&Results::y, &Results::gx, &Results::gw, &Results::gb})
        EXPECT_EQ((many.*member).to_vector<float>(), (one.*member).to_vector<float>()) << threads << " threads";
    }
  }
}

TEST(Winograd, AnImagesBitsDoNotDependOnItsBatch) {
  const Case c{{9, 32, 10, 10}, 48};
  const Tensor x = image_of(c), w = weight_of(c), gy = gradient_of(c), b = random_tensor({c.results}, DType::f32);
  const Results all = run(c, x, w, b, gy);
  for (const std::int64_t i : {0, 4, 8}) {
    const auto one = [&](const Tensor& t) { return narrow(t, 0, i, 1); };
    const Results r = run({{1, 32, 10, 10}, 48}, channels_last(one(x)), w, b, channels_last(one(gy)));
    EXPECT_EQ(r.y.to_vector<float>(), one(all.y).to_vector<float>());
    EXPECT_EQ(r.gx.to_vector<float>(), one(all.gx).to_vector<float>());
  }
}

TEST(Winograd, AppliesAnActivation) {
  const Tensor x = channels_last(random_tensor({2, 16, 8, 8}, DType::f32)),
               w = random_tensor({32, 16, 3, 3}, DType::f32);
  const auto convolve = [&](Activation activation) {
    Tensor y = empty_like(conv2d(x, w, {}, {.padding = 1}));
    run(cpu::winograd::plan_conv2d, cpu::winograd::conv2d,
        Conv2dArgs{x.read(), w.read(), {}, y.write(), {.padding = 1}, activation});
    return y;
  };
  EXPECT_EQ(convolve(Activation::relu).to_vector<float>(), relu(convolve(Activation::none)).to_vector<float>());
}

// With an activation, kernels read the gradient that passed through it, which may have another layout than gy.
TEST(Winograd, AMaskedGradientMayHaveAnotherLayout) {
  for (const std::int64_t channels : {8, 32})  // 8: a direct kernel
    for (const bool is_row_major : {false, true}) {
      const Tensor x = channels_last(random_tensor({2, channels, 8, 8}, DType::f32)),
                   gy = channels_last(random_tensor({2, 32, 8, 8}, DType::f32)), values = relu(gy + 0.5),
                   y = is_row_major ? contiguous(values) : channels_last(values);
      const auto run_with = [&](const ConvKernels& k) {
        const Tensor gw = empty({32, channels, 3, 3}), gb = empty({32}), masked = empty_like(y);
        const Conv2dWeightGradArgs args{x.read(),       gy.read(),        gw.write(), gb.write(),
                                        {.padding = 1}, Activation::relu, y.read(),   masked.write()};
        const Plan plan = k.conv2d_weight_grad.plan(args);
        std::vector<std::max_align_t> memory(plan.workspace / sizeof(std::max_align_t) + 8);
        void* data = memory.data();
        std::size_t space = plan.workspace + 64;
        k.conv2d_weight_grad.launch(args, plan, {std::align(64, plan.workspace, data, space), plan.workspace});
        return std::pair(gw, gb);
      };
      const auto [gw, gb] = run_with(cpu::conv_kernels());
      const auto [expected_w, expected_b] = run_with(cpu::portable::conv_kernels());
      SCOPED_TRACE(testing::Message() << channels << " channels, row-major: " << is_row_major);
      expect_close(gw, expected_w, "gw");
      expect_close(gb, expected_b, "gb");
    }
}

TEST(Winograd, SuitsThreeByThreeTapsOfManyChannels) {
  const auto check = [](const Shape& shape, const Shape& weight, const Conv2dParams& p, DType dtype = DType::f32,
                        bool is_nhwc = true) {
    const Tensor image = empty(shape, dtype, Device::meta()), x = is_nhwc ? channels_last(image) : image,
                 w = empty(weight, dtype, Device::meta()), y = conv2d(x, w, {}, p);
    return suits(x.read(), w.read(), y.read(), p);
  };
  EXPECT_TRUE(check({2, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 1}));
  EXPECT_TRUE(check({8, 48, 6, 6}, {80, 48, 3, 3}, {}));
  EXPECT_FALSE(check({2, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 1}, DType::f64));
  EXPECT_FALSE(check({2, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 1}, DType::bf16));
  EXPECT_FALSE(check({2, 16, 8, 8}, {16, 16, 3, 3}, {.stride = 2, .padding = 1}));
  EXPECT_FALSE(check({2, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 1, .dilation = 2}));
  EXPECT_FALSE(check({2, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 3})) << "the gradient would have a negative padding";
  EXPECT_FALSE(check({2, 32, 8, 8}, {32, 16, 3, 3}, {.padding = 1, .groups = 2}));
  EXPECT_FALSE(check({2, 16, 8, 8}, {16, 16, 1, 3}, {}));
  EXPECT_FALSE(check({2, 16, 8, 8}, {16, 16, 5, 5}, {.padding = 2}));
  EXPECT_FALSE(check({2, 8, 8, 8}, {16, 8, 3, 3}, {.padding = 1}));
  EXPECT_FALSE(check({2, 16, 8, 8}, {24, 16, 3, 3}, {.padding = 1}));
  EXPECT_FALSE(check({2, 16, 2, 2}, {16, 16, 3, 3}, {.padding = 1})) << "a tile would be three quarters empty";
  EXPECT_FALSE(check({1, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 1})) << "four tiles";
  EXPECT_FALSE(check({0, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 1}));
}

TEST(Winograd, ManyChannelsSuitTheGradientOfAWeight) {
  const auto check = [](std::int64_t channels, std::int64_t results) {
    const auto image = [](std::int64_t c) { return channels_last(empty({2, c, 8, 8}, DType::f32, Device::meta())); };
    const Tensor x = image(channels), gy = image(results),
                 gw = empty({results, channels, 3, 3}, DType::f32, Device::meta());
    return suits(Conv2dWeightGradArgs{x.read(), gy.read(), gw.write(), {}, {.padding = 1}});
  };
  EXPECT_TRUE(check(32, 32));
  EXPECT_TRUE(check(16, 64));
  EXPECT_FALSE(check(16, 16));
  EXPECT_FALSE(check(16, 32));
}

}  // namespace
}  // namespace bytetape
