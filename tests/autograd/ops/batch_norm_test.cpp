#include "bytetape/autograd/ops/norm/batch_norm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/parallel.h"
#include "tests/autograd/ops/images.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::image;
using test::layouts;

constexpr double momentum = 0.3, eps = 1e-3;

const Shape shapes[] = {{2, 3, 4, 5},  {5, 1, 3, 2},    {1, 4, 1, 7},
                        {6, 2, 1, 1},  {8, 20, 17, 13},  // several blocks of pixels
                        {3, 300, 2, 2}};                 // more channels than are taken at once

Tensor positive(const Shape& shape, DType dtype) { return rand(shape, dtype) + 0.5; }

Tensor per_channel(const Tensor& v) { return view(v, {1, v.numel(), 1, 1}); }

struct Reference {
  Tensor mean, var, y;
};
/// From differentiable ops: x f64 (n, c, h, w).
Reference reference(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor mean = bytetape::mean(x, {0, 2, 3}, true), var = bytetape::var(x, {0, 2, 3}, true, 0);
  Tensor y = (x - mean) / sqrt(var + eps);
  if (weight.defined()) y = y * per_channel(weight);
  if (bias.defined()) y = y + per_channel(bias);
  return {reshape(mean, {x.size(1)}), reshape(var, {x.size(1)}), y};
}

TEST(BatchNorm, NormalisesInEveryLayoutAndDtype) {
  const std::pair<DType, double> tolerances[] = {
      {DType::f64, 1e-11}, {DType::f32, 1e-4}, {DType::bf16, 2e-2}, {DType::f16, 4e-3}};
  for (const Shape& shape : shapes)
    for (const auto& layout : layouts)
      for (const auto& [dtype, tolerance] : tolerances) {
        SCOPED_TRACE(detail::concat(layout, " ", shape, " ", dtype));
        const Tensor x = image(layout, shape, dtype), weight = randn({shape[1]}, dtype),
                     bias = randn({shape[1]}, dtype);
        Tensor running_mean = randn({shape[1]}), running_var = positive({shape[1]}, DType::f32);
        if (dtype == DType::f64) running_mean = to(running_mean, dtype), running_var = to(running_var, dtype);
        const Tensor old_mean = clone(to(running_mean, DType::f64)), old_var = clone(to(running_var, DType::f64));
        const Tensor y = batch_norm(x, weight, bias, running_mean, running_var, true, momentum, eps);
        const Reference r = reference(to(x, DType::f64), to(weight, DType::f64), to(bias, DType::f64));
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_TRUE(all_close(to(y, DType::f64), r.y, tolerance, tolerance));
        const double n = static_cast<double>(x.numel() / shape[1]), statistics = std::min(tolerance, 1e-5);
        EXPECT_TRUE(all_close(to(running_mean, DType::f64), old_mean * (1 - momentum) + r.mean * momentum, statistics,
                              statistics));
        EXPECT_TRUE(all_close(to(running_var, DType::f64), old_var * (1 - momentum) + r.var * (momentum * n / (n - 1)),
                              statistics, statistics));
      }
}

// weight and bias may be left out, each alone.
TEST(BatchNorm, HasTheGradientOfItsDefinition) {
  for (const Shape& shape : shapes)
    for (const auto& layout : layouts)
      for (int affine = 0; affine < 4; ++affine) {
        if (shape[1] > 100 && affine < 3) continue;
        SCOPED_TRACE(detail::concat(layout, " ", shape, " affine ", affine));
        Tensor x = image(layout, shape).detach().set_requires_grad(), weight, bias;
        std::vector<Tensor> inputs{x};
        if (affine & 1) inputs.push_back(weight = randn({shape[1]}, DType::f64).set_requires_grad());
        if (affine & 2) inputs.push_back(bias = randn({shape[1]}, DType::f64).set_requires_grad());
        const Tensor y = batch_norm(x, weight, bias, {}, {}, true, momentum, eps);
        const Tensor expected_y = reference(x, weight, bias).y;
        for (const auto& seed_layout : layouts) {
          const Tensor gy = image(seed_layout, shape);
          const auto found = grad({y}, inputs, {.seeds = {gy}, .retain_graph = true});
          const auto expected = grad({expected_y}, inputs, {.seeds = {gy}, .retain_graph = true});
          for (std::size_t i = 0; i < inputs.size(); ++i)
            EXPECT_TRUE(all_close(found[i], expected[i], 1e-8, 1e-8)) << "input " << i << ", seed " << seed_layout;
        }
      }
}

// Each value is rounded where the parts round it, but for 16-bit sums with a residual.
TEST(BatchNorm, WithAnActivationAndAResidualIsItsPartsBitForBit) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const Shape& shape : shapes)
      for (const auto& layout : layouts)
        for (const bool adds : {false, true}) {
          if (adds && dtype == DType::bf16) continue;
          SCOPED_TRACE(detail::concat(layout, " ", shape, " ", dtype, adds ? " with a residual" : ""));
          const Tensor x = image(layout, shape, dtype).detach().set_requires_grad(),
                       weight = randn({shape[1]}, dtype).set_requires_grad(),
                       bias = randn({shape[1]}, dtype).set_requires_grad();
          const Tensor residual = adds ? image("channels-last", shape, dtype).detach().set_requires_grad() : Tensor();
          const Tensor y = batch_norm(x, weight, bias, {}, {}, true, momentum, eps, Activation::relu, residual);
          const Tensor normalised = batch_norm(x, weight, bias, {}, {}, true, momentum, eps);
          const Tensor parts = relu(adds ? normalised + residual : normalised);
          EXPECT_TRUE(y.to_vector<double>() == parts.to_vector<double>());

          std::vector<Tensor> inputs{x, weight, bias};
          if (adds) inputs.push_back(residual);
          const Tensor gy = image(layout, shape, dtype);
          const auto found = grad({y}, inputs, {.seeds = {gy}}), expected = grad({parts}, inputs, {.seeds = {gy}});
          const double tolerance = dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 1e-4 : 2e-2;
          for (std::size_t i = 0; i < inputs.size(); ++i)
            EXPECT_TRUE(all_close(to(found[i], DType::f64), to(expected[i], DType::f64), tolerance, tolerance)) << i;
        }
}

TEST(BatchNorm, RoundsASixteenBitSumWithItsResidualOnce) {
  const Tensor x = channels_last(randn({4, 8, 6, 6}, DType::bf16)),
               residual = channels_last(randn(x.shape(), x.dtype()));
  const auto fused = [](const Tensor& x, const Tensor& residual) {
    return batch_norm(x, {}, {}, {}, {}, true, momentum, eps, Activation::relu, residual);
  };
  const Tensor y = fused(x, residual), wide = fused(to(x, DType::f32), to(residual, DType::f32));
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_TRUE(y.to_vector<double>() == to(wide, DType::bf16).to_vector<double>());
}

// What autocast asks for: images in 16 bits, everything that is a number a channel in f32.
TEST(BatchNorm, TakesSixteenBitImagesWithWideStatistics) {
  for (const auto& layout : {"row-major", "channels-last"}) {
    const Tensor x = image(layout, {4, 8, 6, 6}, DType::bf16).detach().set_requires_grad(),
                 residual = image(layout, x.shape(), DType::bf16).detach().set_requires_grad();
    const Tensor weight = randn({8}).set_requires_grad(), bias = randn({8}).set_requires_grad();
    const Tensor mean = zeros({8}), var = ones({8}), wide_mean = zeros({8}), wide_var = ones({8});
    const Tensor y = batch_norm(x, weight, bias, mean, var, true, momentum, eps, Activation::relu, residual);
    const Tensor wide = batch_norm(to(x, DType::f32), weight, bias, wide_mean, wide_var, true, momentum, eps,
                                   Activation::relu, to(residual, DType::f32));
    EXPECT_TRUE(y.to_vector<double>() == to(wide, DType::bf16).to_vector<double>()) << layout;
    EXPECT_TRUE(all_close(mean, wide_mean, 1e-6, 1e-6)) << layout;
    EXPECT_TRUE(all_close(var, wide_var, 1e-6, 1e-6)) << layout;
    const Tensor gy = image(layout, x.shape(), DType::bf16);
    const std::vector<Tensor> inputs{x, weight, bias, residual};
    const auto found = grad({y}, inputs, {.seeds = {gy}}),
               expected = grad({wide}, inputs, {.seeds = {to(gy, DType::f32)}});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), inputs[i].dtype());
      const double tolerance = inputs[i].dtype() == DType::bf16 ? 1e-2 : 1e-4;
      EXPECT_TRUE(all_close(to(found[i], DType::f64), to(expected[i], DType::f64), tolerance, tolerance)) << i;
    }
  }
}

TEST(BatchNorm, CountsBatchesInTrainingAlone) {
  const Tensor x = randn({4, 3}), mean = zeros(3), var = ones(3), batches = zeros({}, DType::i64);
  const auto run = [&](bool training) {
    batch_norm(x, {}, {}, mean, var, training, momentum, eps, Activation::none, {}, batches);
  };
  run(true);
  run(true);
  run(false);
  EXPECT_EQ(batches.item<int>(), 2);
  EXPECT_EQ(batches.storage().version(), 2u);
  EXPECT_EQ(mean.storage().version(), 2u);
  EXPECT_EQ(var.storage().version(), 2u);
}

// The next layer holds y anyway; x tells what ReLU did, and need not be kept for the residual alone.
TEST(BatchNorm, KeepsItsResultOnlyWhereXDoesNotTellTheMask) {
  const Tensor x = randn({4, 3}).set_requires_grad(), residual = randn({4, 3}).set_requires_grad();
  const auto run = [](const Tensor& x, const Tensor& residual) {
    return batch_norm(x, {}, {}, {}, {}, true, momentum, eps, Activation::relu, residual);
  };
  const auto role = [](const Tensor& t) { return t.storage().role(); };
  EXPECT_EQ(role(run(x, {})), memory::Role::temporary);
  EXPECT_EQ(role(run(x, residual)), memory::Role::saved);
  const Tensor other = x.detach();
  const Tensor y = run(clone(other), residual);
  EXPECT_EQ(role(y), memory::Role::saved);
  EXPECT_EQ(test::held_as(memory::Role::saved), test::rounded(4 * 3 * sizeof(float)));
}

TEST(BatchNorm, EvaluatesWithTheRunningStatistics) {
  for (const auto& layout : layouts) {
    SCOPED_TRACE(layout);
    Tensor x = image(layout, {3, 5, 4, 2}).detach().set_requires_grad();
    Tensor weight = randn({5}, DType::f64).set_requires_grad(), bias = randn({5}, DType::f64).set_requires_grad();
    const Tensor mean = randn({5}, DType::f64), var = positive({5}, DType::f64);
    const auto mean_before = mean.to_vector<double>(), var_before = var.to_vector<double>();
    const Tensor y = batch_norm(x, weight, bias, mean, var, false, momentum, eps);
    const Tensor expected =
        (x - per_channel(mean)) / per_channel(sqrt(var + eps)) * per_channel(weight) + per_channel(bias);
    EXPECT_TRUE(all_close(y, expected));
    EXPECT_EQ(mean.to_vector<double>(), mean_before);
    EXPECT_EQ(var.to_vector<double>(), var_before);
    const Tensor gy = randn(x.shape(), DType::f64);
    const std::vector<Tensor> inputs{x, weight, bias};
    const auto g = grad({y}, inputs, {.seeds = {gy}}), expected_g = grad({expected}, inputs, {.seeds = {gy}});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(all_close(g[i], expected_g[i], 1e-11, 1e-11)) << i;
  }
}

// Summing squares instead of squared distances would lose every digit of the variance here.
TEST(BatchNorm, SurvivesAMeanFarFromZero) {
  for (const auto& layout : {"row-major", "channels-last"}) {
    const Tensor x = image(layout, {16, 8, 12, 12}, DType::f32) + 10000.0;
    Tensor mean = zeros({8}), var = zeros({8});
    batch_norm(x, {}, {}, mean, var, true, 1.0, eps);
    const Reference r = reference(to(x, DType::f64), {}, {});
    const double n = 16 * 12 * 12;
    EXPECT_TRUE(all_close(to(mean, DType::f64), r.mean, 1e-6)) << layout;
    EXPECT_TRUE(all_close(to(var, DType::f64), r.var * (n / (n - 1)), 1e-4)) << layout;
  }
}

TEST(BatchNorm, IsBitwiseTheSameForAnyThreadCount) {
  const int threads = num_threads();
  for (const auto& layout : {"row-major", "channels-last"}) {
    Tensor x = image(layout, {13, 31, 23, 19}, DType::f32).detach().set_requires_grad();
    Tensor weight = randn({31}).set_requires_grad(), bias = randn({31}).set_requires_grad();
    const Tensor gy = image(layout, x.shape(), DType::f32);
    std::vector<std::vector<float>> results;
    for (int count : {1, 2, 3, 7}) {
      set_num_threads(count);
      const Tensor y = batch_norm(x, weight, bias, {}, {}, true);
      results.push_back(y.to_vector<float>());
      for (const Tensor& g : grad({y}, {x, weight, bias}, {.seeds = {gy}})) {
        const auto values = g.to_vector<float>();
        results.back().insert(results.back().end(), values.begin(), values.end());
      }
      EXPECT_TRUE(results.back() == results.front()) << layout << ", " << count << " threads";
    }
  }
  set_num_threads(threads);
}

TEST(BatchNorm, KeepsTheMemoryLayoutAndPicksDtypes) {
  Tensor x = image("channels-last", {2, 3, 4, 4}, DType::bf16).detach().set_requires_grad();
  Tensor weight = randn({3}).set_requires_grad(), bias = randn({3}, DType::bf16).set_requires_grad();
  const Tensor y = batch_norm(x, weight, bias, {}, {}, true);
  EXPECT_EQ(y.strides(), x.strides());
  const auto g = grad({sum(y)}, {x, weight, bias});
  EXPECT_EQ(g[0].strides(), x.strides());
  EXPECT_EQ(g[1].dtype(), DType::f32);
  EXPECT_EQ(g[2].dtype(), DType::bf16);
}

// Also those that are computed in f32, to be differentiated again.
TEST(BatchNorm, GivesGradientsInTheDtypesOfItsInputs) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor x = test::random_leaf({4, 3, 4, 4}, DType::bf16), weight = test::random_leaf({3}, dtype),
                 bias = test::random_leaf({3}, dtype), seed = test::random_tensor(x.shape(), DType::bf16);
    const auto gradients = [&](bool create_graph) {
      const Tensor y = batch_norm(x, weight, bias, {}, {}, true);
      return grad({y}, {x, weight, bias}, {.seeds = {seed}, .create_graph = create_graph});
    };
    const auto fused = gradients(false), recorded = gradients(true);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(recorded[i].dtype(), i == 0 ? DType::bf16 : dtype);
      EXPECT_TRUE(all_close(recorded[i], fused[i], 0.03, 0.03)) << i;
    }
  }
}

TEST(BatchNorm, MovesNothingWhereMemoryIsShort) {
  const Tensor x = randn({32, 8, 128, 128});  // 16 MiB: y gets a segment of its own
  const auto fresh = [] { return std::pair(zeros({8}), ones({8})); };
  const auto [mean, var] = fresh();
  const auto means = mean.to_vector<float>(), vars = var.to_vector<float>();
  memory::empty_cache(Device::cpu());
  memory::set_limit(memory::stats(Device::cpu()).reserved.current + (std::size_t{4} << 20),
                    Device::cpu());  // not for y
  EXPECT_THROW(batch_norm(x, {}, {}, mean, var, true), OutOfMemory);
  EXPECT_EQ(mean.to_vector<float>(), means);
  EXPECT_EQ(var.to_vector<float>(), vars);
  memory::set_limit(std::numeric_limits<std::size_t>::max(), Device::cpu());
  const auto [other_mean, other_var] = fresh();
  EXPECT_EQ(batch_norm(x, {}, {}, mean, var, true).to_vector<float>(),
            batch_norm(x, {}, {}, other_mean, other_var, true).to_vector<float>());
  EXPECT_EQ(mean.to_vector<float>(), other_mean.to_vector<float>());
  EXPECT_EQ(var.to_vector<float>(), other_var.to_vector<float>());
  EXPECT_NE(mean.to_vector<float>(), means);
}

TEST(BatchNorm, LeavesNoScratchBehind) {
  Tensor x = image("channels-last", {4, 8, 16, 16}, DType::f32).detach().set_requires_grad();
  const std::size_t before = test::allocated();
  {
    const Tensor y = batch_norm(x, {}, {}, {}, {}, true);
    EXPECT_EQ(test::held_as(memory::Role::workspace), 0u);
    EXPECT_EQ(test::allocated() - before, 4 * 8 * 16 * 16 * sizeof(float) + 2 * memory::rounding);  // y, mean, var
  }
  EXPECT_EQ(test::allocated(), before);
}

TEST(BatchNorm, SaysWhatIsWrong) {
  const Tensor x = randn({2, 3, 4, 5}), c = randn({3});
  const auto train = [](const Tensor& x, const Tensor& weight) { batch_norm(x, weight, {}, {}, {}, true); };
  EXPECT_THROWS_SAYING(train(randn({2, 3, 4, 5, 6}), {}), ShapeError, "batch_norm: expected x (n, c), (n, c, l) or");
  EXPECT_THROWS_SAYING(train(ones({2, 3}, DType::i64), {}), DTypeError, "floating");
  EXPECT_THROWS_SAYING(train(x, randn({4})), ShapeError, "expected a weight for each of the 3 channels of");
  EXPECT_THROWS_SAYING(train(x, randn({3}, DType::f64)), DTypeError, "weight must have the dtype of x");
  EXPECT_THROWS_SAYING(train(x, empty({3}, DType::f32, Device::meta())), DeviceError, "weight is on another device");
  EXPECT_THROWS_SAYING(train(randn({1, 3}), {}), ValueError, "more than one value a channel");
  EXPECT_THROWS_SAYING(batch_norm(x, {}, {}, c, {}, false), ValueError, "running_mean and running_var");
  EXPECT_THROWS_SAYING(batch_norm(x, {}, {}, {}, {}, true, 0.1, -1), ValueError, "eps must not be negative, got -1");
  const auto before = c.to_vector<float>();
  EXPECT_THROWS_SAYING(batch_norm(x, {}, {}, c, expand(ones({1}), {3}), true), ValueError, "share memory");
  EXPECT_EQ(c.to_vector<float>(), before);
}

// The same of each tensor, whichever of them it is.
TEST(BatchNorm, ChecksEachOfItsTensors) {
  const Tensor x = randn({2, 3, 4, 5});
  for (const bool training : {true, false})
    for (int place = 0; place < 4; ++place) {
      SCOPED_TRACE(detail::concat(training, place));
      const auto with = [&](const Tensor& wrong) {
        Tensor t[4] = {ones(3), ones(3), ones(3), ones(3)};
        t[place] = wrong;
        batch_norm(x, t[0], t[1], t[2], t[3], training);
      };
      EXPECT_THROWS_SAYING(with(ones(4)), ShapeError, "for each of the 3 channels of");
      EXPECT_THROWS_SAYING(with(ones({3, 1})), ShapeError, "for each of the 3 channels of");
      EXPECT_THROWS_SAYING(with(ones({3}, DType::f64)), DTypeError, "must have the dtype of x");
      EXPECT_THROWS_SAYING(with(empty({3}, DType::f32, Device::meta())), DeviceError, "is on another device");
      const Tensor shared = expand(ones({1}), {3});
      if (training && place >= 2) {
        EXPECT_THROWS_SAYING(with(shared), ValueError, "share memory");
      } else {
        EXPECT_NO_THROW(with(shared)) << "which is read alone";
      }
    }
  const auto add = [&](const Tensor& residual) {
    batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, Activation::none, residual);
  };
  EXPECT_THROWS_SAYING(add(randn({2, 3, 4, 1})), ShapeError, "expected a residual of the shape of");
  EXPECT_THROWS_SAYING(add(randn({2, 3, 4, 5}, DType::f64)), DTypeError, "different dtypes");
  EXPECT_THROWS_SAYING(add(to(x, Device::meta())), DeviceError, "different devices");
  const auto count = [&](const Tensor& batches) {
    batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, Activation::none, {}, batches);
  };
  EXPECT_THROWS_SAYING(count(zeros({1}, DType::i64)), ShapeError, "expected num_batches_tracked, a scalar");
  EXPECT_THROWS_SAYING(count(zeros({}, DType::i32)), DTypeError, "expected num_batches_tracked in i64");
  EXPECT_THROWS_SAYING(count(zeros({}, DType::i64, Device::meta())), DeviceError, "is on another device");
  for (const double wrong : {HUGE_VAL, -HUGE_VAL, std::nan("")})
    EXPECT_THROWS_SAYING(batch_norm(x, {}, {}, {}, {}, true, wrong), ValueError, "momentum must be finite");
}

TEST(BatchNorm, OfAViewLeftBehindMovesNothing) {
  const Tensor h = randn({4, 3}).set_requires_grad() * 1, v = view(h, {4, 3});
  relu_(h);
  const Tensor running_mean = zeros(3), running_var = ones(3);
  EXPECT_THROW(batch_norm(v, {}, {}, running_mean, running_var, true), AutogradError);
  EXPECT_EQ(running_mean.to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(running_var.to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

// Its rule adds up two gradients by itself, but whoever looks on the way sees the sum.
TEST(BatchNorm, ShowsHooksAndGradTheSumOfItsGradients) {
  const auto random = [] { return randn({4, 3}, DType::f64); };
  const Tensor values = random(), a = random(), b = random();
  const auto gradient = [&](const Tensor& residual, bool watches) {
    const Tensor x = clone(values).set_requires_grad();
    const Tensor y = batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, Activation::relu, residual);
    const Tensor loss = sum(y * a) + sum(y * b);
    if (watches) { EXPECT_TRUE(all_close(grad({loss}, {y}, {.retain_graph = true})[0], a + b, 1e-14, 1e-14)); }
    Tensor seen;
    if (watches) y.register_hook([&](const Tensor& g) { return seen = g, Tensor(); });
    loss.backward();
    if (watches) { EXPECT_TRUE(all_close(seen, a + b, 1e-14, 1e-14)); }
    return x.grad();
  };
  for (const Tensor& residual : {random(), Tensor()})
    EXPECT_TRUE(all_close(gradient(residual, true), gradient(residual, false), 1e-12, 1e-12));
}

TEST(BatchNorm, KeepsNothingForItsBias) {
  const Tensor x = randn({4, 3}), weight = ones(3), bias = zeros(3).set_requires_grad();
  const Tensor y = batch_norm(x, weight, bias, {}, {}, true);
  EXPECT_EQ(x.storage().role(), memory::Role::temporary);
  EXPECT_EQ(weight.storage().role(), memory::Role::temporary);
  sum(y).backward();
  EXPECT_EQ(bias.grad().to_vector<float>(), (std::vector<float>{4, 4, 4}));
}

// The rule that is recorded, of each subset of its inputs.
TEST(BatchNorm, GivesARecordedGradientToWhoeverNeedsOne) {
  for (const bool of_weight : {true, false})
    for (const bool of_bias : {true, false}) {
      if (!of_weight && !of_bias) continue;
      Tensor w = test::random_leaf({3}), b = test::random_leaf({3});
      const Tensor x = test::random_tensor({4, 3, 2, 2}), seed = test::random_tensor({4, 3, 2, 2});
      std::vector<Tensor> leaves;
      if (of_weight) leaves.push_back(w);
      if (of_bias) leaves.push_back(b);
      w.set_requires_grad(of_weight), b.set_requires_grad(of_bias);
      const Tensor y = batch_norm(x, w, b, {}, {}, true);
      const auto recorded = grad({y}, leaves, {.seeds = {seed}, .create_graph = true});
      const auto plain = grad({y}, leaves, {.seeds = {seed}});
      for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(all_close(recorded[i].detach(), plain[i]));
    }
}

TEST(BatchNorm, EvaluatesWithBothStatisticsAlone) {
  const Tensor x = test::random_tensor({4, 3}), s = ones({3}, DType::f64);
  EXPECT_THROWS_SAYING(batch_norm(x, {}, {}, s, {}, false), ValueError, "running_mean and running_var");
  EXPECT_THROWS_SAYING(batch_norm(x, {}, {}, {}, s, false), ValueError, "running_mean and running_var");
}

// Its rule may write over one of the two gradients that meet, but over none that somebody else holds.
TEST(BatchNorm, WritesOverNoGradientThatAHookKept) {
  for (const bool keeps_first : {true, false})
    for (const bool keeps_second : {true, false}) {
      const Tensor x = test::random_leaf({4, 3, 2, 2}), c = test::random_tensor({4, 3, 2, 2}),
                   d = test::random_tensor({4, 3, 2, 2});
      Tensor kept_c, kept_d;
      const Tensor y = batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, Activation::relu), first = y + 1, second = y + 2;
      if (keeps_first) first.register_hook([&](const Tensor& g) { return kept_c = g, Tensor(); });
      if (keeps_second) second.register_hook([&](const Tensor& g) { return kept_d = g, Tensor(); });
      sum(first * c + second * d).backward();
      if (keeps_first) { EXPECT_TRUE(all_close(kept_c, c, 0, 0)); }
      if (keeps_second) { EXPECT_TRUE(all_close(kept_d, d, 0, 0)); }
      const Tensor again = batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, Activation::relu);
      EXPECT_TRUE(all_close(x.grad(), grad({again}, {x}, {.seeds = {c + d}})[0]));
    }
}

TEST(BatchNorm, AddsUpMoreThanTwoGradients) {
  const Tensor x = test::random_leaf({4, 3, 2, 2});
  std::vector<Tensor> seeds;
  for (int i = 0; i < 4; ++i) seeds.push_back(test::random_tensor({4, 3, 2, 2}));
  const auto made = [&] { return batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, Activation::relu); };
  const Tensor y = made();
  sum(y * seeds[0] + y * seeds[1] + y * seeds[2] + y * seeds[3]).backward();
  const Tensor all = seeds[0] + seeds[1] + seeds[2] + seeds[3];
  EXPECT_TRUE(all_close(x.grad(), grad({made()}, {x}, {.seeds = {all}})[0]));
}

// A second run computes as the first did, and moves nothing, whichever of the running tensors there are.
TEST(BatchNorm, InACheckpointMovesItsStatisticsOnce) {
  for (const bool training : {true, false})
    for (const bool tracks : {true, false})
      for (const bool counts : {true, false}) {
        if (!training && !tracks) continue;
        SCOPED_TRACE(detail::concat(training, tracks, counts));
        const Tensor values = test::random_tensor({4, 3}), w = test::random_tensor({4, 3});
        const auto step = [&](bool checkpoints) {
          const Tensor mean = full({3}, 0.5, DType::f64), var = full({3}, 2, DType::f64),
                       batches = zeros({}, DType::i64), x = clone(values).set_requires_grad();
          const auto f = [&](const Tensor& t) {
            return batch_norm(t, {}, {}, tracks ? mean : Tensor(), tracks ? var : Tensor(), training, momentum, eps,
                              Activation::none, {}, counts ? batches : Tensor());
          };
          const Tensor h = x * 1;
          sum((checkpoints ? checkpoint(f, h) : f(h)) * w).backward();
          return cat({flatten(x.grad()), mean, var, to(view(batches, {1}), DType::f64)}).to_vector<double>();
        };
        EXPECT_EQ(step(true), step(false));
      }
}

TEST(BatchNorm, MakesTheGradientsOfItsParametersAloneWithoutScratch) {
  const Tensor x = randn({64, 3, 16, 16}), weight = ones(3).set_requires_grad(), bias = zeros(3).set_requires_grad();
  const Tensor y = batch_norm(x, weight, bias, {}, {}, true), seed = randn(y.shape());
  memory::reset_peaks(Device::cpu());
  const std::size_t before = test::allocated();
  y.backward(seed);
  EXPECT_LT(test::statistics().allocated.peak - before, x.nbytes() / 2);
}

}  // namespace
}  // namespace bytetape
