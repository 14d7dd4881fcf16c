#include "bytetape/autograd/ops/norm/layer_norm.h"

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

TEST(LayerNorm, KeepsNothingForItsBias) {
  const Tensor x = randn({5, 3}), weight = ones(3), bias = zeros(3).set_requires_grad();
  const Tensor y = layer_norm(x, 3, weight, bias);
  EXPECT_EQ(x.storage().role(), memory::Role::temporary);
  EXPECT_EQ(weight.storage().role(), memory::Role::temporary);
  sum(y).backward();
  EXPECT_EQ(bias.grad().to_vector<float>(), (std::vector<float>{5, 5, 5}));
}

TEST(LayerNorm, SurvivesAMeanFarFromZero) {
  const Tensor x = randn({4, 1000}, DType::f32) + 1e4;
  const Tensor y = layer_norm(x, 1000);
  EXPECT_TRUE(test::all_close(mean(y, 1).to_vector<double>(), std::vector<double>(4), 0, 1e-3));
  EXPECT_TRUE(test::all_close(var(y, 1, false, 0).to_vector<double>(), std::vector<double>(4, 1), 0, 1e-2));
}

Tensor leaf(const Shape& shape, DType dtype) { return test::random_leaf(shape, dtype); }

// Values, and gradients where y, the sum, or both are used.
TEST(AddLayerNorm, IsItsPartsBitForBit) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t n : {5, 96, 1500})
      for (const bool uses_y : {false, true})
        for (const bool uses_sum : {false, true}) {
          if (!uses_y && !uses_sum) continue;
          SCOPED_TRACE(detail::concat(dtype, " ", n, uses_y ? " y" : "", uses_sum ? " sum" : ""));
          const Tensor x = leaf({40, n}, dtype), residual = leaf({40, n}, dtype), weight = leaf({n}, dtype),
                       bias = leaf({n}, dtype), gy = leaf({40, n}, dtype).detach();
          const AddLayerNorm one = add_layer_norm(x, residual, n, weight, bias);
          const Tensor sum = x + residual, y = layer_norm(sum, n, weight, bias);
          EXPECT_EQ(one.y.to_vector<double>(), y.to_vector<double>());
          EXPECT_EQ(one.sum.to_vector<double>(), sum.to_vector<double>());
          std::vector<Tensor> inputs{x, residual};
          if (uses_y) inputs.insert(inputs.end(), {weight, bias});
          const auto gradients = [&](const Tensor& of_y, const Tensor& of_sum) {
            std::vector<Tensor> outputs, seeds;
            if (uses_sum) outputs.push_back(of_sum), seeds.push_back(gy * 0.5);
            if (uses_y) outputs.push_back(of_y), seeds.push_back(gy);
            return grad(outputs, inputs, {.seeds = seeds});
          };
          const auto got = gradients(one.y, one.sum), expected = gradients(y, sum);
          for (std::size_t i = 0; i < inputs.size(); ++i)
            EXPECT_EQ(got[i].to_vector<double>(), expected[i].to_vector<double>()) << "input " << i;
        }
}

// Without gradients, the kernel reads a 16-bit weight and bias itself. With gradients, backward needs them in f32.
TEST(LayerNorm, ConvertsCoefficientsOnlyForGradients) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(detail::concat(dtype));
    const Tensor x = test::random_tensor({5, 300}, dtype), residual = test::random_tensor({5, 300}, dtype), none;
    const Tensor w = test::random_leaf({300}, dtype), b = test::random_leaf({300}, dtype);
    const auto results = [&](const Tensor& weight, const Tensor& bias) {
      const AddLayerNorm added = add_layer_norm(x, residual, 300, weight, bias);
      std::vector<std::vector<double>> all;
      for (const Tensor& y : {layer_norm(x, 300, weight, bias), rms_norm(x, 300, weight), added.y, added.sum})
        all.push_back(y.to_vector<double>());
      return all;
    };
    const auto recorded = results(w, b), recorded_without_bias = results(w, none);
    const NoGrad no_grad;
    EXPECT_EQ(results(w, b), recorded);
    EXPECT_EQ(results(to(w, DType::f32), b), recorded);
    EXPECT_EQ(results(w, none), recorded_without_bias);
    const auto before = memory::stats().allocations;
    const Tensor y = rms_norm(x, 300, w);
    EXPECT_EQ(memory::stats().allocations - before, 2u) << "the result and 1 / RMS";
  }
}

TEST(AddLayerNorm, GivesTheResidualAloneItsGradient) {
  const Tensor x = randn({4, 3}), residual = leaf({4, 3}, DType::f32);
  const AddLayerNorm made = add_layer_norm(x, residual, 3);
  const Tensor sum = (x + residual.detach()).set_requires_grad();
  (made.y * made.sum).backward(ones({4, 3}));
  (layer_norm(sum, 3) * sum).backward(ones({4, 3}));
  EXPECT_EQ(residual.grad().to_vector<float>(), sum.grad().to_vector<float>());
}

TEST(AddLayerNorm, WritesItsGradientOverThatOfTheSum) {
  const auto made_by_backward = [](const auto& f) {
    const Tensor x = leaf({40, 30}, DType::f32), residual = randn({40, 30});
    const AddLayerNorm of = f(x, residual);
    const Tensor loss = sum(of.y * 2 + of.sum * 3);
    const auto before = test::statistics().allocations;
    loss.backward();
    return test::statistics().allocations - before;
  };
  const auto parts = [](const Tensor& x, const Tensor& residual) -> AddLayerNorm {
    const Tensor sum = x + residual;
    return {layer_norm(sum, 30), sum};
  };
  EXPECT_EQ(made_by_backward([](const Tensor& x, const Tensor& r) { return add_layer_norm(x, r, 30); }) + 1,
            made_by_backward(parts));
}

TEST(AddLayerNorm, NoticesThatItsSumWasOverwritten) {
  const Tensor x = leaf({4, 3}, DType::f32);
  const AddLayerNorm made = add_layer_norm(x, randn({4, 3}), 3);
  {
    const NoGrad no_grad;
    add_(made.sum, 1);
  }
  EXPECT_THROWS_SAYING(made.y.backward(ones({4, 3})), AutogradError, "was overwritten by 'add_'");
}

TEST(LayerNorm, TakesNoShapeLongerThanItsInputs) {
  EXPECT_THROWS_SAYING(layer_norm(test::random_tensor({3}), {2, 3}), ShapeError, "last dims are (2, 3)");
  EXPECT_THROWS_SAYING(layer_norm(test::random_tensor({3}), {}), ShapeError, "normalized_shape is empty");
}

TEST(Norms, TakeAnEpsOfZero) {
  const Tensor x = test::random_tensor({4, 6});
  const Tensor row = (x - mean(x, 1, true)) / sqrt(var(x, 1, true, 0)),
               column = (x - mean(x, 0, true)) / sqrt(var(x, 0, true, 0));
  EXPECT_TRUE(test::all_close(layer_norm(x, {6}, {}, {}, 0), row));
  EXPECT_TRUE(test::all_close(group_norm(x, 1, {}, {}, 0), row));
  EXPECT_TRUE(test::all_close(batch_norm(x, {}, {}, {}, {}, true, 0.1, 0), column));
}

TEST(AddLayerNorm, AddsAGradientOfItsSumInAnyLayout) {
  const Tensor x = test::random_leaf({4, 6}), r = test::random_leaf({4, 6}), c = test::random_tensor({4, 6});
  const Tensor seed = transpose(test::random_tensor({6, 4}), 0, 1);  // dense, but not row-major
  const auto gradients = [&](bool fuses) {
    const Tensor s = fuses ? Tensor() : x + r;
    const auto [y, all] = fuses ? add_layer_norm(x, r, {6}) : AddLayerNorm{layer_norm(s, {6}), s};
    return grad({sum(y * c), neg(all)}, {x, r}, {.seeds = {ones({}, DType::f64), seed}});
  };
  const auto fused = gradients(true), composed = gradients(false);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(test::all_close(fused[i], composed[i]));
}

// A recorded backward uses the saved sum without a view in between, so the sum's gradient arrives in any layout. It may
// be overwritten only if it is row-major.
TEST(AddLayerNorm, AddsASecondGradientOfItsSumInAnyLayout) {
  const Tensor x = test::random_leaf({4, 6}), r = test::random_leaf({4, 6}), c = test::random_tensor({4, 6});
  const Tensor seed = transpose(test::random_tensor({6, 4}), 0, 1);  // dense, but not row-major
  const auto gradients = [&](bool fuses) {
    const Tensor s = fuses ? Tensor() : x + r;
    const Tensor y = fuses ? add_layer_norm(x, r, {6}).y : layer_norm(s, {6});
    const Tensor first = grad({sum(y * c)}, {x}, {.create_graph = true})[0];
    return grad({neg(first), sum(y)}, {x, r}, {.seeds = {seed, ones({}, DType::f64)}});
  };
  const auto fused = gradients(true), composed = gradients(false);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(test::all_close(fused[i], composed[i], 1e-9, 1e-9));
}

// A gradient that comes to the sum alone is of no use to the weight, and is not copied for it.
TEST(AddLayerNorm, CopiesNoGradientOfItsSumForItsWeight) {
  int copies = 0;
  for (const memory::Event& e : test::record_events(Device::cpu(), [](Device) {
         const Tensor x = test::random_leaf({4, 6}), c = test::random_tensor({4, 6}), w = test::random_leaf({6});
         const auto [y, all] = add_layer_norm(x, x, {6}, w);
         grad({sum(y * c) + sum(all)}, {w});
       }))
    copies += e.kind == memory::EventKind::alloc && e.phase == memory::Phase::backward &&
              memory::name_of(e.op) == std::string("add_layer_norm") && e.requested == 4 * 6 * sizeof(double);
  EXPECT_EQ(copies, 0);
}

}  // namespace
}  // namespace bytetape
