#include "bytetape/autograd/ops/images/conv.h"

#include <gtest/gtest.h>
#include <iterator>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/parallel.h"
#include "tests/support/expect.h"
#include "tests/support/planned.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_tensor;

struct Case {
  Shape x, weight;
  Conv2dParams params;
};

// Strides, padding, dilation and groups alone and together; 1x1; one channel; a kernel as large as the input.
const Case cases[] = {
    {{2, 3, 7, 8}, {4, 3, 3, 3}, {}},
    {{3, 1, 9, 9}, {5, 1, 3, 3}, {}},
    {{2, 4, 6, 5}, {3, 4, 1, 1}, {}},
    {{2, 16, 5, 5}, {32, 16, 3, 3}, {.padding = 1}},
    {{1, 3, 9, 7}, {2, 3, 3, 2}, {.stride = {2, 3}, .padding = {1, 0}}},
    {{2, 2, 9, 10}, {3, 2, 3, 3}, {.padding = {2, 1}, .dilation = {2, 3}}},
    {{2, 6, 6, 6}, {9, 2, 3, 3}, {.padding = 1, .groups = 3}},
    {{2, 4, 7, 7}, {8, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 4}},
    {{2, 4, 8, 9}, {4, 2, 2, 3}, {.stride = {2, 1}, .padding = {2, 3}, .dilation = {3, 2}, .groups = 2}},
    {{1, 5, 4, 3}, {7, 5, 4, 3}, {}},
    {{0, 3, 7, 8}, {4, 3, 3, 3}, {}},
};

std::vector<double> naive(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dParams& p) {
  const auto array = [](const Tensor& t) { return test::Array(t.shape(), t.to_vector<double>()); };
  const test::Array b = bias.defined() ? array(bias) : test::Array();
  return test::reference::conv2d(array(x), array(weight), bias.defined() ? &b : nullptr, p).values;
}

struct Tolerance {
  DType dtype;
  double rtol, atol;
};
constexpr Tolerance tolerances[] = {
    {DType::f64, 1e-12, 1e-12}, {DType::f32, 1e-4, 1e-4}, {DType::bf16, 8e-3, 8e-3}, {DType::f16, 2e-3, 2e-3}};

class Conv2dTyped : public ::testing::TestWithParam<Tolerance> {
 protected:
  Tensor random(const Shape& shape) { return random_tensor(shape, GetParam().dtype); }
};

TEST_P(Conv2dTyped, FollowsTheDefinition) {
  for (const Case& c : cases)
    for (const bool with_bias : {false, true}) {
      const Tensor x = random(c.x), w = random(c.weight), b = with_bias ? random({c.weight[0]}) : Tensor();
      const Tensor y = conv2d(x, w, b, c.params);
      EXPECT_TRUE(is_channels_last(y.shape(), y.strides()));
      EXPECT_TRUE(all_close(y.to_vector<double>(), naive(x, w, b, c.params), GetParam().rtol, GetParam().atol))
          << describe(x) << describe(w) << describe(y);
    }
}

TEST_P(Conv2dTyped, GradientsAreThoseOfDouble) {
  const auto gradients = [](const Case& c, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& gy) {
    return grad({conv2d(x, w, b, c.params)}, {x, w, b}, {.seeds = {gy}});
  };
  const auto leaf = [](const Tensor& x, DType dtype) { return to(x, dtype).detach().set_requires_grad(); };
  for (const Case& c : cases) {
    const Tensor x = random(c.x), w = random(c.weight), b = random({c.weight[0]});
    const Tensor gy = random(conv2d(x, w, b, c.params).shape());
    const DType t = GetParam().dtype;
    const auto got = gradients(c, leaf(x, t), leaf(w, t), leaf(b, t), gy);
    const auto expected =
        gradients(c, leaf(x, DType::f64), leaf(w, DType::f64), leaf(b, DType::f64), to(gy, DType::f64));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(
          all_close(got[i].to_vector<double>(), expected[i].to_vector<double>(), GetParam().rtol, 4 * GetParam().atol))
          << "gradient " << i << " for " << c.x << c.weight;
    EXPECT_TRUE(got[1].is_contiguous());
  }
}

// The portable kernel sums the images of a batch in 16 parts.
TEST_P(Conv2dTyped, GradientsOfParametersAreSumsOverAllImages) {
  constexpr std::int64_t n = 35;
  const auto conv = [](const Tensor& x, const Tensor& w, const Tensor& b) { return conv2d(x, w, b, {.groups = 2}); };
  const auto transposed = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return conv_transpose2d(x, w, b, {.groups = 2});
  };
  const auto check = [&](const auto& f, const Shape& weight) {
    const Tensor x = random({n, 4, 5, 4}), w = random(weight), b = random({6}), gy = random(f(x, w, b).shape());
    const auto gradients = [&](std::int64_t first, std::int64_t count, DType dtype) {
      const Tensor weights = to(w, dtype).detach().set_requires_grad(),
                   bias = to(b, dtype).detach().set_requires_grad();
      const auto images = [&](const Tensor& all) { return to(narrow(all, 0, first, count), dtype); };
      return grad({f(images(x), weights, bias)}, {weights, bias}, {.seeds = {images(gy)}});
    };
    const std::vector<Tensor> got = gradients(0, n, GetParam().dtype), expected = gradients(0, 1, DType::f64);
    for (std::int64_t i = 1; i < n; ++i) {
      const std::vector<Tensor> more = gradients(i, 1, DType::f64);
      for (std::size_t k = 0; k < 2; ++k) add_(expected[k], more[k]);
    }
    for (std::size_t k = 0; k < 2; ++k)
      EXPECT_TRUE(
          all_close(got[k].to_vector<double>(), expected[k].to_vector<double>(), GetParam().rtol, 16 * GetParam().atol))
          << (k == 0 ? "weight" : "bias");
  };
  check(conv, {6, 2, 3, 3});
  check(transposed, {4, 3, 3, 3});
}

/// Values and gradients.
std::vector<std::vector<double>> results(const Tensor& y, const std::vector<Tensor>& leaves, const Tensor& seed) {
  std::vector<std::vector<double>> all{y.to_vector<double>()};
  for (const Tensor& g : grad({y}, leaves, {.seeds = {seed}})) all.push_back(g.to_vector<double>());
  return all;
}

// Also of images that want no gradient: then the kernel of the weight's gradient sees to the activation.
TEST_P(Conv2dTyped, WithReluHasTheBitsOfTheTwo) {
  for (const Case& c : cases)
    for (const bool with_bias : {false, true})
      for (const bool of_x : {false, true})
        for (const bool nhwc : {false, true}) {
          const Tensor x = random(c.x).set_requires_grad(of_x), w = random(c.weight).set_requires_grad();
          const Tensor b = with_bias ? random({c.weight[0]}).set_requires_grad() : Tensor();
          std::vector<Tensor> leaves{w};
          if (of_x) leaves.push_back(x);
          if (with_bias) leaves.push_back(b);
          const Tensor one = conv2d(x, w, b, c.params, Activation::relu), two = relu(conv2d(x, w, b, c.params));
          const Tensor seed = nhwc ? channels_last(random(one.shape())) : random(one.shape());
          EXPECT_EQ(results(one, leaves, seed), results(two, leaves, seed)) << describe(x) << describe(w);
        }
}

TEST(Conv2d, TakesNoActivationButRelu) {
  EXPECT_THROWS_SAYING(conv2d(randn({1, 3, 4, 4}), randn({2, 3, 3, 3}), {}, {}, Activation::gelu_tanh), ValueError,
                       "conv2d: expected no activation or relu");
}

TEST_P(Conv2dTyped, ReluKeepsNaN) {
  const Tensor x = full({1, 3, 4, 4}, std::nan(""), GetParam().dtype);
  for (const double v : conv2d(x, random({2, 3, 3, 3}), {}, {}, Activation::relu).to_vector<double>())
    EXPECT_TRUE(std::isnan(v));
}

INSTANTIATE_TEST_SUITE_P(Conv2d, Conv2dTyped, ::testing::ValuesIn(tolerances),
                         [](const auto& info) { return to_string(info.param.dtype); });

TEST(Conv2d, ANumberStandsForHeightAndWidth) {
  const Tensor x = random_tensor({1, 2, 5, 6}), w = random_tensor({3, 2, 2, 2});
  const auto values = [&](const Conv2dParams& p) { return conv2d(x, w, {}, p).to_vector<double>(); };
  EXPECT_EQ(conv2d(x, w, {}, {.padding = 1}).shape(), (Shape{1, 3, 6, 7}));
  EXPECT_EQ(conv2d(x, w, {}, {.padding = {1, 2}}).shape(), (Shape{1, 3, 6, 9}));
  EXPECT_EQ(values({.padding = {1}}), values({.padding = {1, 1}}));
  EXPECT_EQ(values({.stride = 2, .dilation = 3}), values({.stride = {2, 2}, .dilation = {3, 3}}));
}

TEST(Conv2d, TakesAnyLayout) {
  const Tensor w = random_tensor({3, 2, 4, 3}, DType::f32), x = random_tensor({2, 8, 9, 4}, DType::f32);
  const Tensor image = permute(x, {0, 3, 1, 2}), kernel = permute(w, {1, 3, 0, 2});  // (2, 4, 8, 9), (2, 3, 3, 4)
  const Tensor sliced = narrow(image, 1, 1, 3);
  const Tensor y = conv2d(sliced, kernel, {}, {});
  EXPECT_TRUE(all_close(y.to_vector<double>(), naive(sliced, kernel, {}, {}), 1e-4, 1e-4));
  const Tensor z = conv2d(expand(random_tensor({1, 3, 1, 9}, DType::f32), {2, 3, 8, 9}), kernel, {}, {});
  EXPECT_EQ(z.shape(), (Shape{2, 2, 6, 6}));
}

/// Values of x, dense with its first dim innermost.
Tensor in_another_order(const Tensor& x) { return permute(contiguous(permute(x, {3, 1, 2, 0})), {3, 1, 2, 0}); }

TEST(Conv2d, TheGradientOfAWeightLiesAsTheWeightDoes) {
  const Tensor values = random_tensor({4, 3, 3, 2}), gaps = narrow(random_tensor({4, 3, 3, 5}), 3, 1, 2);
  const auto gradient = [&](const Tensor& like, bool of_x, bool with_bias, Activation activation) {
    const Tensor w = like.detach().set_requires_grad(), x = random_tensor({2, 3, 6, 6}).set_requires_grad(of_x);
    const Tensor b = with_bias ? random_tensor(4).set_requires_grad() : Tensor();
    sum(conv2d(x, w, b, {}, activation)).backward();
    return w.grad();
  };
  for (const bool of_x : {false, true})
    for (const bool with_bias : {false, true})
      for (const Activation activation : {Activation::none, Activation::relu}) {
        for (const Tensor& w : {values, channels_last(values), in_another_order(values)})
          EXPECT_EQ(gradient(w, of_x, with_bias, activation).strides(), w.strides());
        EXPECT_TRUE(gradient(gaps, of_x, with_bias, activation).is_contiguous());
      }
}

TEST(Conv2d, CopiesNoDenseWeight) {
  const Tensor x = channels_last(random_tensor({2, 3, 6, 6})), values = random_tensor({4, 3, 3, 2});
  for (const Tensor& w : {values, channels_last(values), in_another_order(values)}) {
    const std::vector<double> expected = conv2d(x, values).to_vector<double>();
    EXPECT_EQ(conv2d(x, w).to_vector<double>(), expected);
    const Tensor leaf = w.detach().set_requires_grad(), y = conv2d(x.detach().set_requires_grad(), leaf);
    EXPECT_EQ(leaf.storage().role(), memory::Role::saved);  // itself
  }
}

const ConvKernels& chosen() { return cpu::conv_kernels(); }  // oneDNN where it was built in
const ConvKernels& portable = cpu::portable::conv_kernels();

struct Results {
  Tensor y, gx, gw, gb;
};
Results run_kernels(const ConvKernels& k, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& gy,
                    const Conv2dParams& p) {
  Results r{empty_like(gy), empty_like(x), empty_like(w), empty_like(b)};
  test::run_planned(k.conv2d, {x.read(), w.read(), b.read(), r.y.write(), p});
  test::run_planned(k.conv2d_input_grad, {gy.read(), w.read(), r.gx.write(), p});
  test::run_planned(k.conv2d_weight_grad, {x.read(), gy.read(), r.gw.write(), r.gb.write(), p});
  return r;
}

/// Whether the chosen kernels run programs of oneDNN, which leaves some convolutions to the portable kernels. True if
/// oneDNN was not built in.
bool all_have_programs(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& gy, const Conv2dParams& p) {
  const ConvKernels& k = chosen();
  const Results r{empty_like(gy), empty_like(x), empty_like(w), empty_like(b)};
  return &k == &portable || (k.conv2d.plan({x.read(), w.read(), b.read(), r.y.write(), p}).program &&
                             k.conv2d_input_grad.plan({gy.read(), w.read(), r.gx.write(), p}).program &&
                             k.conv2d_weight_grad.plan({x.read(), gy.read(), r.gw.write(), r.gb.write(), p}).program);
}

TEST(Conv2dKernels, ChosenAndPortableAgreeInEveryLayout) {
  for (const Case& c : cases)
    for (const bool nhwc : {false, true}) {
      const auto laid_out = [&](const Tensor& t) { return nhwc ? channels_last(t) : contiguous(t); };
      const Tensor x = laid_out(random_tensor(c.x, DType::f32)), weight = random_tensor(c.weight, DType::f32);
      const Tensor b = random_tensor({c.weight[0]}, DType::f32);
      const Tensor gy = laid_out(random_tensor(conv2d(x, weight, b, c.params).shape(), DType::f32));
      const Results expected = run_kernels(portable, x, weight, b, gy, c.params);
      const auto close = [](const Tensor& p, const Tensor& q) {
        return all_close(p.to_vector<double>(), q.to_vector<double>(), 1e-4, 2e-4);
      };
      for (const Tensor& w : {weight, channels_last(weight), in_another_order(weight)})
        for (const ConvKernels& k : {chosen(), portable}) {
          const Results got = run_kernels(k, x, w, b, gy, c.params);
          EXPECT_TRUE(close(got.y, expected.y)) << c.x << c.weight << w.strides();
          EXPECT_TRUE(close(got.gx, expected.gx)) << c.x << c.weight << w.strides();
          EXPECT_TRUE(close(got.gw, expected.gw)) << c.x << c.weight << w.strides();
          EXPECT_TRUE(close(got.gb, expected.gb)) << c.x << c.weight << w.strides();
        }
    }
}

TEST(Conv2dKernels, GradientsOfParametersMayBeWide) {
  for (const DType t : {DType::bf16, DType::f16}) {
    const Tensor x = random_tensor({2, 4, 6, 6}, t), gy = random_tensor({2, 5, 4, 4}, t);
    const Tensor gw = channels_last(zeros({5, 4, 3, 3})), gb = zeros(5);
    test::run_planned(chosen().conv2d_weight_grad, {x.read(), gy.read(), gw.write(), gb.write(), {}});
    const Tensor expected_w = zeros({5, 4, 3, 3}), expected_b = zeros(5);
    test::run_planned(
        portable.conv2d_weight_grad,
        {to(x, DType::f32).read(), to(gy, DType::f32).read(), expected_w.write(), expected_b.write(), {}});
    EXPECT_TRUE(all_close(gw, expected_w, 1e-5, 1e-5));
    EXPECT_TRUE(all_close(gb, expected_b, 1e-5, 1e-5));
  }
}

// Programs are kept by key: of two convolutions that differ in one thing alone the second must not get the first's.
TEST(Conv2dKernels, ChosenTellsConvolutionsApart) {
  struct Pair {
    const char* what;
    std::int64_t size;
    Conv2dParams first, second;
  };
  const Pair pairs[] = {
      {"dilation h", 9, {.stride = 4}, {.stride = 4, .dilation = {2, 1}}},
      {"dilation w", 9, {.stride = 4}, {.stride = 4, .dilation = {1, 2}}},
      {"padding h", 8, {.stride = 4}, {.stride = 4, .padding = {1, 0}}},
      {"padding w", 8, {.stride = 4}, {.stride = 4, .padding = {0, 1}}},
      {"stride h", 9, {.stride = 4}, {.stride = {5, 4}}},
      {"stride w", 9, {.stride = 4}, {.stride = {4, 5}}},
  };
  const auto close = [](const Tensor& p, const Tensor& q) {
    return all_close(p.to_vector<double>(), q.to_vector<double>(), 1e-4, 1e-4);
  };
  const Tensor w = random_tensor({16, 16, 3, 3}, DType::f32), b = random_tensor({16}, DType::f32);
  const Tensor gy = channels_last(random_tensor({2, 16, 2, 2}, DType::f32));
  std::size_t with_program = 0;
  for (const Pair& pair : pairs) {
    const Tensor x = channels_last(random_tensor({2, 16, pair.size, pair.size}, DType::f32));
    with_program += all_have_programs(x, w, b, gy, pair.first);
    for (const Conv2dParams& p : {pair.first, pair.second}) {
      ASSERT_EQ(conv2d(x, w, b, p).shape(), gy.shape()) << pair.what;
      const Results got = run_kernels(chosen(), x, w, b, gy, p), expected = run_kernels(portable, x, w, b, gy, p);
      for (const auto member : {&Results::y, &Results::gx, &Results::gw, &Results::gb})
        EXPECT_TRUE(close(got.*member, expected.*member)) << pair.what;
    }
  }
  // Without AVX2, no program of oneDNN is repeatable, and all are left out.
  EXPECT_TRUE(with_program == 0 || with_program == std::size(pairs)) << with_program;
  // Layouts of x, of y and of the weight, and the bias, in all orders of two.
  const Tensor image = random_tensor({2, 16, 9, 9}, DType::f32);
  const Conv2dParams p{.stride = 4};
  for (const Tensor& x : {image, channels_last(image), image})
    for (const Tensor& g : {contiguous(gy), gy, contiguous(gy)})
      for (const Tensor& weight : {w, channels_last(w), in_another_order(w), w})
        for (const Tensor& bias : {b, Tensor(), b}) {
          const auto run = [&](const ConvKernels& k) {
            Results r{empty_like(g), empty_like(x), empty_like(weight), empty_like(b)};
            const View gb = bias.defined() ? r.gb.write() : View();
            const ConstView read = bias.defined() ? bias.read() : ConstView();
            test::run_planned(k.conv2d, {x.read(), weight.read(), read, r.y.write(), p});
            test::run_planned(k.conv2d_input_grad, {g.read(), weight.read(), r.gx.write(), p});
            test::run_planned(k.conv2d_weight_grad, {x.read(), g.read(), r.gw.write(), gb, p});
            return r;
          };
          const Results got = run(chosen()), expected = run(portable);
          EXPECT_TRUE(close(got.y, expected.y));
          EXPECT_TRUE(close(got.gx, expected.gx));
          EXPECT_TRUE(close(got.gw, expected.gw));
          if (bias.defined()) { EXPECT_TRUE(close(got.gb, expected.gb)); }
        }
}

TEST(Conv2dKernels, PortableBitsDoNotDependOnThreads) {
  const int threads = num_threads();
  const Tensor x = random_tensor({9, 5, 12, 12}, DType::f32), w = random_tensor({6, 5, 3, 3}, DType::f32);
  const Tensor b = random_tensor({6}, DType::f32), gy = random_tensor({9, 6, 10, 10}, DType::f32);
  std::vector<Results> runs;
  for (int n : {1, 2, 5}) {
    set_num_threads(n);
    runs.push_back(run_kernels(portable, x, w, b, gy, {}));
  }
  set_num_threads(threads);
  for (const auto member : {&Results::y, &Results::gx, &Results::gw, &Results::gb})
    for (const Results& r : runs) EXPECT_EQ((r.*member).to_vector<float>(), (runs[0].*member).to_vector<float>());
}

TEST(Conv2d, TheGradientOfItsWeightKeepsWhatItsOwnGradientNeeds) {
  for (const bool of_x : {true, false}) {
    Tensor x = channels_last(randn({2, 3, 5, 5})), seed = channels_last(randn({2, 4, 3, 3}));
    (of_x ? x : seed).set_requires_grad();
    const Tensor w = randn({4, 3, 3, 3}).set_requires_grad();
    Tensor y = conv2d(x, w);
    const Tensor gw = grad({y}, {w}, {.seeds = {seed}, .create_graph = true})[0];
    y = Tensor();  // and with it what conv2d saved
    EXPECT_EQ(x.storage().role() == memory::Role::saved, !of_x);
    EXPECT_EQ(seed.storage().role() == memory::Role::saved, of_x);
    EXPECT_TRUE(grad({gw}, {of_x ? x : seed}, {.seeds = {randn(gw.shape())}})[0].defined());
  }
}

// One kernel makes both gradients where nothing is to be recorded; its result has no gradient of its own.
TEST(Conv2d, OfAConstantImageIsDifferentiatedTwice) {
  const Tensor x = random_tensor({2, 2, 4, 4}), w = test::random_leaf({3, 2, 2, 2}), b = test::random_leaf({3});
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor y = conv2d(in[0], in[1], in[2]);
    return y * y;
  };
  const GradcheckResult once = gradcheck(f, {x, w, b}), twice = gradgradcheck(f, {x, w, b});
  EXPECT_TRUE(once) << once.message;
  EXPECT_TRUE(twice) << twice.message;
}

TEST(ConvTranspose2d, SaysWhatIsTooLarge) {
  const auto of = [](const Shape& x, const Shape& w) {
    const Device meta = Device::meta();
    conv_transpose2d(empty(x, DType::f32, meta), empty(w, DType::f32, meta), {}, {.stride = 1 << 30});
  };
  constexpr std::int64_t huge = std::int64_t{1} << 31;
  EXPECT_THROWS_SAYING(of({1, 1, huge, 1}, {1, 1, 1, 1}), ShapeError, "is too large");
  EXPECT_THROWS_SAYING(of({1, 1, 1, huge}, {1, 1, 1, 1}), ShapeError, "is too large");
  EXPECT_THROWS_SAYING(of({1, 1, 1, 1}, {1, 1, huge, 1}), ShapeError, "is too large");
  EXPECT_THROWS_SAYING(of({1, 1, 1, 1}, {1, 1, 1, huge}), ShapeError, "is too large");
}

TEST(Conv2d, SaysWhatDoesNotFit) {
  const Tensor x = random_tensor({2, 4, 5, 6}), w = random_tensor({6, 4, 3, 3});
  EXPECT_THROWS_SAYING(
      conv2d(x, random_tensor({6, 3, 3, 3})), ShapeError,
      "conv2d: expected 3 channels for weight f64(6, 3, 3, 3) on cpu in 1 group, got 4 in f64(2, 4, 5, 6)");
  EXPECT_THROWS_SAYING(conv2d(x, random_tensor({5, 2, 3, 3}), {}, {.groups = 2}), ShapeError,
                       "2 groups do not divide the 5 channels");
  EXPECT_THROWS_SAYING(conv2d(select(x, 0, 0), w), ShapeError, "expected x (n, c, h, w)");
  EXPECT_THROWS_SAYING(conv2d(x, random_tensor({6, 4, 6, 3})), ShapeError, "is larger than f64(2, 4, 5, 6) on cpu");
  EXPECT_THROWS_SAYING(conv2d(x, w, random_tensor({4})), ShapeError, "expected a bias (6,)");
  EXPECT_THROWS_SAYING(conv2d(random_tensor({2, 4, 0, 6}), w), ShapeError,
                       "expected no dim of size 0 except the batch of x");
  for (const Size2 low : {Size2{0, 1}, Size2{1, 0}}) {
    EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.stride = low}), ValueError, detail::concat("got stride ", low));
    EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.dilation = low}), ValueError, detail::concat("and dilation ", low));
    EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.padding = {low.h - 1, low.w - 1}}), ValueError, "must not be negative");
    const std::int64_t far = std::int64_t{1} << 31;
    const Size2 high{low.h ? far : 1, low.w ? far : 1};
    EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.stride = high}), ValueError, "must be below 2^31");
    EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.padding = high}), ValueError, "must be below 2^31");
    EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.dilation = high}), ValueError, "must be below 2^31");
  }
  for (int d = 0; d < 4; ++d) {
    Shape none = w.shape();
    none[d] = 0;
    EXPECT_THROWS_SAYING(conv2d(x, empty(none, DType::f64)), ShapeError, "expected no dim of size 0") << d;
  }
  EXPECT_THROWS_SAYING(conv2d(x, w, {}, {.groups = 0}), ValueError, "groups must be at least 1");
  EXPECT_THROWS_SAYING(conv2d(x, to(w, DType::f32)), DTypeError, "different dtypes");
  EXPECT_THROWS_SAYING(conv2d(x, to(w, Device::meta())), DeviceError, "different devices");
}

}  // namespace
}  // namespace bytetape
