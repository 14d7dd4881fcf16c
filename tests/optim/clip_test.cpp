#include "bytetape/optim/clip.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/parallel.h"
#include "bytetape/optim/sgd.h"
#include "tests/optim/golden.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::optim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor with_grad(const Tensor& g) {
  Tensor p = zeros_like(g).set_requires_grad();
  p.set_grad(g);
  return p;
}
Tensor with_grad(const std::vector<double>& g) { return with_grad(from_vector(g)); }

/// Gradients of many sizes: of one element and none, of many pieces, channels-last.
std::vector<Tensor> many(DType dtype) {
  std::vector<Tensor> parameters;
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{0}, Shape{33, 65}, Shape{100003}, Shape{2, 3, 5, 7}})
    parameters.push_back(with_grad(test::random_tensor(shape, dtype)));
  parameters.push_back(with_grad(channels_last(test::random_tensor({4, 3, 3, 5}, dtype))));
  return parameters;
}

TEST(ClipGradNorm, ScalesToTheNorm) {
  const std::vector<Tensor> p{with_grad({3, 0}), with_grad({-4})};
  const Tensor norm = clip_grad_norm_(p, 2.5);
  EXPECT_EQ(norm.shape(), Shape{});
  EXPECT_EQ(norm.item<double>(), 5);
  const double factor = 2.5 / (5 + 1e-6);
  EXPECT_THAT(p[0].grad().to_vector<double>(), ElementsAre(3 * factor, 0));
  EXPECT_THAT(p[1].grad().to_vector<double>(), ElementsAre(-4 * factor));
}

TEST(ClipGradNorm, ToZeroLeavesNothing) {
  const Tensor p = with_grad({3, -4});
  EXPECT_EQ(clip_grad_norm_({p}, 0).item<double>(), 5);
  EXPECT_THAT(p.grad().to_vector<double>(), ElementsAre(0, 0));
}

TEST(ClipGradNorm, LeavesASmallerNormItsBits) {
  for (const double most : {5.1, infinity}) {
    const std::vector<Tensor> p{with_grad({3}), with_grad({-4})};
    EXPECT_EQ(clip_grad_norm_(p, most).item<double>(), 5);
    EXPECT_THAT(p[0].grad().to_vector<double>(), ElementsAre(3));
    EXPECT_THAT(p[1].grad().to_vector<double>(), ElementsAre(-4));
  }
}

TEST(ClipGradNorm, IsWhatOpsSay) {
  for (const auto& [dtype, most] :
       {std::pair{DType::f64, 1e-13}, {DType::f32, 1e-6}, {DType::bf16, 1e-2}, {DType::f16, 2e-3}}) {
    SCOPED_TRACE(detail::concat(dtype));
    const std::vector<Tensor> parameters = many(dtype);
    std::vector<Tensor> expected;
    Tensor squares = zeros({}, DType::f64);
    for (const Tensor& p : parameters) {
      expected.push_back(clone(to(p.grad(), DType::f64)));
      squares = squares + sum(expected.back() * expected.back());
    }
    const double norm = std::sqrt(squares.item<double>());
    const Tensor found = clip_grad_norm_(parameters, 1.5);
    EXPECT_EQ(found.dtype(), dtype == DType::f64 ? DType::f64 : DType::f32);
    EXPECT_NEAR(found.item<double>(), norm, norm * std::min(most, 1e-6));
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(test::all_close(parameters[i].grad(), expected[i] * (1.5 / (norm + 1e-6)), most, most));
  }
}

TEST(ClipGradNorm, TakesDtypesTogether) {
  const std::vector<Tensor> p{with_grad(full({2}, 1, DType::f32)), with_grad(full({2}, 1, DType::f64)),
                              with_grad(full({5}, 1, DType::bf16))};
  const Tensor norm = clip_grad_norm_(p, 1);
  EXPECT_EQ(norm.dtype(), DType::f64);
  EXPECT_EQ(norm.item<double>(), 3);
  EXPECT_FLOAT_EQ(p[0].grad().to_vector<float>()[1], 1.0f / 3);
  EXPECT_NEAR(p[1].grad().to_vector<double>()[1], 1.0 / 3, 1e-6);
  EXPECT_NEAR(p[2].grad().to_vector<double>()[4], 1.0 / 3, 1e-2);
}

TEST(ClipGradNorm, OfWhatIsNotFiniteScalesAsPyTorch) {
  Tensor p = with_grad({1, infinity});
  EXPECT_EQ(clip_grad_norm_({p}, 1).item<double>(), infinity);
  EXPECT_EQ(p.grad().to_vector<double>()[0], 0);
  EXPECT_TRUE(std::isnan(p.grad().to_vector<double>()[1]));
  p = with_grad({1, std::nan("")});
  EXPECT_TRUE(std::isnan(clip_grad_norm_({p}, 1).item<double>()));
  EXPECT_TRUE(std::isnan(p.grad().to_vector<double>()[0]));
}

TEST(ClipGradNorm, DoesNotOverflowBeforeTheNormDoes) {
  const Tensor p = with_grad(full({4}, 1e30, DType::f32));
  EXPECT_FLOAT_EQ(clip_grad_norm_({p}, 1).item<float>(), 2e30f);
}

TEST(ClipGradNorm, PassesOverParametersWithoutGradient) {
  const Tensor none = randn({3}).set_requires_grad(), p = with_grad({3, 4});
  EXPECT_EQ(clip_grad_norm_({none, p}, 10).item<double>(), 5);
  EXPECT_FALSE(none.grad().defined());
  EXPECT_EQ(clip_grad_norm_({none}, 1).item<double>(), 0);
  EXPECT_EQ(clip_grad_norm_({}, 1).item<double>(), 0);
}

TEST(ClipGradNorm, PassesOverGradientsWithoutElements) {
  const Tensor p = with_grad({3, 4, 0}), inside = with_grad(narrow(p.grad(), 0, 1, 0)),
               elsewhere = with_grad(empty({0}, DType::f32, Device::meta())),
               single = with_grad(zeros({3}, DType::f32)), wide = with_grad(empty({0}, DType::f64));
  EXPECT_EQ(clip_grad_norm_({elsewhere, p, inside}, 10).item<double>(), 5);
  EXPECT_NO_THROW(clip_grad_value_({elsewhere, p, inside}, 10));
  EXPECT_EQ(clip_grad_norm_({single, wide}, 10).dtype(), DType::f32);
}

TEST(ClipGradNorm, TakesGradientsThatLieSideBySide) {
  const Tensor all = test::random_tensor({7}, DType::f64);
  Tensor p = zeros({3}, DType::f64), q = zeros({4}, DType::f64);
  const std::vector<double> before = all.to_vector<double>();
  p.set_grad(narrow(all, 0, 0, 3));
  q.set_grad(narrow(all, 0, 3, 4));
  const double norm = clip_grad_norm_({q, p}, 0.5).item<double>();
  EXPECT_TRUE(test::all_close(all, from_vector(before) * (0.5 / (norm + 1e-6))));
}

TEST(ClipGradNorm, OfNoGradientLiesWhereTheParametersAre) {
  const Tensor there = ones({3}, DType::f32, Device::meta()).set_requires_grad();
  EXPECT_EQ(clip_grad_norm_({there}, 1).device(), Device::meta());
  EXPECT_EQ(clip_grad_norm_({}, 1).device(), default_device());
}

TEST(ClipGradNorm, TellsTheTapeOfItsWrites) {
  Tensor g = randn({3}).set_requires_grad();
  const Tensor y = sum(g * g), p = with_grad(g.detach());
  clip_grad_norm_({p}, 1e-3);
  EXPECT_THAT([&] { y.backward(); }, ThrowsMessage<AutogradError>(HasSubstr("overwritten by 'clip_grad_norm_'")));
}

TEST(ClipGradNorm, IsBitwiseTheSameForAnyThreadCount) {
  const int threads = num_threads();
  std::vector<std::vector<double>> results;
  for (const int count : {1, 2, 3, 5}) {
    set_num_threads(count);
    manual_seed(5);
    const std::vector<Tensor> p{with_grad(randn({200003})), with_grad(randn({7})), with_grad(randn({70001}))};
    results.push_back({clip_grad_norm_(p, 1).item<double>()});
    for (const Tensor& x : p) {
      const auto values = x.grad().to_vector<double>();
      results.back().insert(results.back().end(), values.begin(), values.end());
    }
  }
  set_num_threads(threads);
  for (const auto& r : results) EXPECT_TRUE(r == results[0]);
}

TEST(ClipGradNorm, TakesItsWorkspaceOnMetaToo) {
  const auto peak_on = [](Device device) {
    Tensor p = empty({1000000}, DType::f32, device).set_requires_grad();
    p.set_grad(ones({1000000}, DType::f32, device));
    memory::reset_peaks(device);
    const Tensor norm = clip_grad_norm_({p}, 1);
    const auto workspace = static_cast<std::size_t>(memory::Role::workspace);
    EXPECT_EQ(norm.device(), device);
    return memory::stats(device).by_role[workspace].peak;
  };
  EXPECT_GT(peak_on(Device::cpu()), 0u);
  EXPECT_EQ(peak_on(Device::cpu()), peak_on(Device::meta()));
  EXPECT_GT(peak_on(Device::meta(Device::cuda())), 0u);
}

TEST(ClipGradNorm, RefusesBadInput) {
  const Tensor p = with_grad({1, 2});
  EXPECT_THAT([&] { clip_grad_norm_({p}, -1); },
              ThrowsMessage<ValueError>(HasSubstr("clip_grad_norm_: max_norm must not be negative, got -1")));
  EXPECT_THROW(clip_grad_norm_({p}, std::nan("")), ValueError);
  EXPECT_THAT(
      [&] {
        clip_grad_norm_({p, {}}, 1);
      },
      ThrowsMessage<ValueError>(HasSubstr("a parameter is an undefined tensor")));
  EXPECT_THAT(
      [&] {
        clip_grad_norm_({p, p}, 1);
      },
      ThrowsMessage<ValueError>(HasSubstr("f64(2,) on cpu, share memory: is a parameter given twice?")));
  Tensor gaps = with_grad(randn({4}));
  gaps.set_grad(expand(randn({1}), {4}));
  EXPECT_THAT([&] { clip_grad_norm_({gaps}, 1); }, ThrowsMessage<ValueError>(HasSubstr("repeat elements")));
  const Tensor elsewhere = with_grad(empty({2}, DType::f32, Device::meta()));
  EXPECT_THAT([&] { clip_grad_norm_({p, elsewhere}, 1); }, ThrowsMessage<DeviceError>(HasSubstr("meta")));
  EXPECT_THAT(p.grad().to_vector<double>(), ElementsAre(1, 2));
}

TEST(ClipGradValue, EqualsPyTorch) {
  golden::run_both("sgd_clip_value", [](const std::vector<Tensor>& x) -> golden::Training {
    return {.optimizer = std::make_unique<SGD>(x, SGDOptions{.lr = 0.02, .momentum = 0.9}),
            .before_step = [x] { clip_grad_value_(x, 0.25); }};
  });
}

TEST(ClipGradValue, LeavesWhatLiesBetween) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const std::vector<Tensor> parameters = many(dtype);
    std::vector<Tensor> expected;
    for (const Tensor& p : parameters) {
      const Tensor g = clone(p.grad()), limit = full({}, 0.5, dtype);
      expected.push_back(where(g > limit, limit, where(g < -limit, -limit, g)));
    }
    clip_grad_value_(parameters, 0.5);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(parameters[i].grad().to_vector<double>(), expected[i].to_vector<double>()) << dtype;
  }
}

TEST(ClipGradValue, TakesWhatIsNotFiniteAsPyTorch) {
  const Tensor p = with_grad({infinity, -infinity, std::nan(""), -3}), none = randn({3}).set_requires_grad();
  clip_grad_value_({none, p}, 2);
  const auto g = p.grad().to_vector<double>();
  EXPECT_EQ(g[0], 2);
  EXPECT_EQ(g[1], -2);
  EXPECT_TRUE(std::isnan(g[2]));
  EXPECT_EQ(g[3], -2);
  EXPECT_FALSE(none.grad().defined());
  EXPECT_NO_THROW(clip_grad_value_({}, 1));
  clip_grad_value_({p}, 0);
  EXPECT_EQ(p.grad().to_vector<double>()[0], 0);
}

TEST(ClipGradValue, RefusesBadInput) {
  const Tensor p = with_grad({1, 2});
  EXPECT_THAT([&] { clip_grad_value_({p}, -1); },
              ThrowsMessage<ValueError>(HasSubstr("clip_grad_value_: clip_value must not be negative, got -1")));
  EXPECT_THROW(clip_grad_value_({p}, std::nan("")), ValueError);
  EXPECT_THAT([&] { clip_grad_value_({p, p}, 1); }, ThrowsMessage<ValueError>(HasSubstr("share memory")));
}

TEST(ClipGradValue, TellsTheTapeOfItsWrites) {
  Tensor g = randn({3}).set_requires_grad();
  const Tensor y = sum(g * g), p = with_grad(g.detach());
  clip_grad_value_({p}, 1e-3);
  EXPECT_THAT([&] { y.backward(); }, ThrowsMessage<AutogradError>(HasSubstr("overwritten by 'clip_grad_value_'")));
}

}  // namespace
}  // namespace bytetape::optim
