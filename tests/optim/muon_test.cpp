#include "bytetape/optim/muon.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "bytetape/autograd/capture.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/optim/grad_scaler.h"
#include "bytetape/optim/step_in_backward.h"
#include "tests/optim/faulty_device.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace bytetape::optim {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<Shape> two{{4, 3}, {3, 5}}, equal{{3, 5}, {4, 4}, {3, 5}, {6, 2}};

/// The problem of tests/golden/muon.py.
Tensor start(const Shape& shape, DType dtype) {
  std::vector<double> x;
  for (std::int64_t k = 0; k < numel(shape); ++k) x.push_back(std::cos(1 + 3 * static_cast<double>(k)));
  return to(from_vector(x, shape), dtype).set_requires_grad();
}
Tensor gradient(const Tensor& p) {
  std::vector<double> g = p.detach().to_vector<double>();
  const auto columns = static_cast<std::size_t>(p.size(1));
  for (std::size_t k = 0; k < g.size(); ++k)
    g[k] = std::sin(g[k] + static_cast<double>(k)) / 3 + (k / columns == k % columns ? 2 : 0);
  return to(from_vector(g, p.shape()), p.dtype());
}

/// Takes 100 steps and compares with PyTorch's after 1, 10 and 100.
template <class Make>
void run(const char* configuration, const std::vector<Shape>& shapes, DType dtype, double tolerance, Make&& make) {
  SCOPED_TRACE(std::string(configuration) + " in " + to_string(dtype));
  std::vector<Tensor> parameters;
  for (const Shape& shape : shapes) parameters.push_back(start(shape, dtype));
  Muon muon = make(parameters);
  int compared = 0;
  for (int step = 1; step <= 100; ++step) {
    for (Tensor& p : parameters) p.set_grad(gradient(p));
    muon.step();
    const std::vector<double> wanted = test::golden_numbers("muon.csv", configuration, std::to_string(step));
    if (wanted.empty()) continue;
    ++compared;
    std::vector<double> found;
    for (const Tensor& p : parameters)
      for (const double v : p.detach().to_vector<double>()) found.push_back(v);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << step << ", " << i;
  }
  EXPECT_EQ(compared, 3);
}
void run(const char* configuration, const std::vector<Shape>& shapes, const MuonOptions& options) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-9}, std::pair{DType::f32, 1e-3}})
    run(configuration, shapes, dtype, tolerance, [&](const auto& p) { return Muon(p, options); });
}

TEST(Muon, EqualsPyTorch) {
  run("muon", two, {});
  run("muon_plain", two, {.lr = 0.02, .weight_decay = 0, .momentum = 0.8, .nesterov = false});
  run("muon_match_rms", two, {.lr = 0.01, .adjust_lr_fn = AdjustLr::match_rms_adamw});
  run("muon_steps", equal, {.lr = 0.05, .ns_coefficients = {3, -3.2, 1.2}, .eps = 1e-3, .ns_steps = 3});
}

TEST(Muon, WithGroupsEqualsPyTorch) {
  run("muon_groups", equal, DType::f64, 1e-9, [](const std::vector<Tensor>& p) {
    return Muon({{.params = {p[0]}, .lr = 0.05},
                 {.params = {p[1]}, .ns_steps = 2},
                 {.params = {p[2]}, .momentum = 0.5},
                 {.params = {p[3]}, .weight_decay = 0.3, .nesterov = false}},
                {.lr = 0.02});
  });
}

/// Takes a step of one parameter with the given values and gradient, and returns the parameter, in f64.
Tensor stepped(const Tensor& value, const Tensor& g, const MuonOptions& options = {.lr = 0.1}) {
  Tensor p = empty_like(value).set_requires_grad();
  copy_(p.detach(), value);
  p.set_grad(g);
  Muon muon({p}, options);
  muon.step();
  return to(contiguous(p.detach()), DType::f64);
}

TEST(Muon, OrthogonalizesAMatrix) {
  const Tensor g = test::random_tensor({20, 50}, DType::f64);
  const Tensor o = stepped(zeros({20, 50}, DType::f64), g, {.lr = 1, .ns_steps = 12});
  const std::vector<double> gram = matmul(o, transpose(o, 0, 1)).to_vector<double>();
  for (std::size_t i = 0; i < gram.size(); ++i) EXPECT_NEAR(gram[i], i % 21 == 0 ? 1 : 0, 0.5) << i;
  EXPECT_LT(sum(g * o).item<double>(), 0);  // against the gradient
}

TEST(Muon, TakesFiltersAsMatrices) {
  const MuonOptions options{.lr = 0.1, .flatten = true};
  const Tensor value = test::random_tensor({6, 4, 3, 3}, DType::f64), g = test::random_tensor({6, 4, 3, 3}, DType::f64);
  const Tensor expected = stepped(view(value, {6, 36}), view(g, {6, 36}), options);
  EXPECT_TRUE(test::all_close(view(stepped(value, g, options), {6, 36}), expected));
  const auto last = [](const Tensor& x) { return channels_last(x); };
  EXPECT_TRUE(test::all_close(view(stepped(last(value), last(g), options), {6, 36}), expected));
}

TEST(Muon, TakesATransposedMatrix) {
  const Tensor value = test::random_tensor({6, 4}, DType::f64), g = test::random_tensor({6, 4}, DType::f64);
  const auto turned = [](const Tensor& x) { return transpose(contiguous(transpose(x, 0, 1)), 0, 1); };
  EXPECT_TRUE(test::all_close(stepped(turned(value), turned(g)), stepped(value, g)));
}

TEST(Muon, ComputesIn16BitsLoosely) {
  const Tensor value = test::random_tensor({16, 24}, DType::f64), g = test::random_tensor({16, 24}, DType::f64);
  const Tensor expected = stepped(value, g);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor found = stepped(to(value, dtype), to(g, dtype));
    EXPECT_LT(max(abs(found - expected)).item<double>(), 0.03) << dtype;
  }
}

TEST(Muon, NamesTheArgumentThatIsOutOfRange) {
  const auto make = [](const MuonOptions& options) { return [=] { Muon({randn({3, 2})}, options); }; };
  EXPECT_THAT(make({.lr = -0.1}), ThrowsMessage<ValueError>(HasSubstr("muon: lr must not be negative, got -0.1")));
  EXPECT_THAT(make({.weight_decay = -1}), ThrowsMessage<ValueError>(HasSubstr("weight_decay must not be negative")));
  EXPECT_THAT(make({.momentum = -1}), ThrowsMessage<ValueError>(HasSubstr("momentum must not be negative")));
  EXPECT_THAT(make({.ns_coefficients = {1, std::nan(""), 0}}), ThrowsMessage<ValueError>(HasSubstr("ns_coefficients")));
  EXPECT_THAT(make({.eps = -1}), ThrowsMessage<ValueError>(HasSubstr("eps must not be negative")));
  EXPECT_THAT(make({.ns_steps = 100}), ThrowsMessage<ValueError>(HasSubstr("ns_steps must be from 0 to 99, got 100")));
}

TEST(Muon, TakesMatricesOnly) {
  const auto make = [](const Shape& shape, bool flatten) {
    return [=] { Muon({randn(shape)}, {.flatten = flatten}); };
  };
  EXPECT_THAT(make({3}, false), ThrowsMessage<ShapeError>(HasSubstr("muon: expected matrices, got the parameter")));
  EXPECT_THAT(make({3}, true), ThrowsMessage<ShapeError>(HasSubstr("use another optimizer for it")));
  EXPECT_THAT(make({2, 3, 3, 3}, false), ThrowsMessage<ShapeError>(HasSubstr("set flatten to take it as a matrix")));
  make({2, 3, 3, 3}, true)();
  const Tensor permuted = transpose(randn({2, 3, 3, 3}), 0, 1);
  EXPECT_THAT(([=] { Muon({permuted}, {.flatten = true}); }), ThrowsMessage<NotImplemented>(HasSubstr("outermost")));
  Muon muon({randn({3, 2})});
  EXPECT_THROW(muon.add_param_group({.params = {randn({3})}}), ShapeError);
}

TEST(Muon, ResumesWithTheSameBits) {
  const auto train = [](Muon& muon, const std::vector<Tensor>& parameters, int steps) {
    for (int i = 0; i < steps; ++i) {
      for (Tensor p : parameters) p.set_grad(gradient(p));
      muon.step();
    }
  };
  const std::vector<Tensor> a{start({4, 3}, DType::f32), start({3, 5}, DType::f32)};
  Muon first(a, {.lr = 0.1});
  train(first, a, 3);
  std::vector<Tensor> b;
  for (const Tensor& p : a) b.push_back(clone(p.detach()).set_requires_grad());
  Muon second(b, {.lr = 0.5, .ns_steps = 1});
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.param_groups()[0].ns_steps, 5);
  train(first, a, 3);
  train(second, b, 3);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i].detach().to_vector<double>(), b[i].detach().to_vector<double>());
}

TEST(Muon, LeavesOutWhatAFaultHasSkipped) {
  FaultyDevice faulty;
  Tensor p = ones({2, 3}, DType::f32, FaultyDevice::device).set_requires_grad();
  Muon muon({p}, {.lr = 0.1});
  const auto step = [&] {
    p.set_grad(ones({2, 3}, DType::f32, FaultyDevice::device));
    muon.step();
  };
  step();
  const std::vector<double> once = p.detach().to_vector<double>();
  faulty.leave_fault();
  step();
  faulty.throw_fault();
  EXPECT_EQ(p.detach().to_vector<double>(), once);
  EXPECT_EQ(muon.state_dict().integer("state.0.step"), 1);
}

TEST(Muon, StepsInBackward) {
  const auto train = [](bool in_backward) {
    manual_seed(3);
    std::vector<Tensor> p{start({4, 3}, DType::f32), start({3, 5}, DType::f32), start({4, 3}, DType::f32)};
    Muon muon(p, {.lr = 0.1});
    std::optional<StepInBackward> steps;
    if (in_backward) steps.emplace(muon);
    for (int i = 0; i < 3; ++i) {
      muon.zero_grad();
      sum(matmul(p[0] * p[2], p[1])).backward();
      if (!in_backward) muon.step();
    }
    return p[0].detach().to_vector<double>();
  };
  EXPECT_TRUE(test::all_close(train(true), train(false), 1e-5, 1e-5));
}

TEST(Muon, LeavesOutAStepOfInfiniteGradients) {
  Tensor p = ones({2, 3}).set_requires_grad();
  Muon muon({p}, {.lr = 0.1});
  GradScaler scaler;
  for (const double g : {1.0, HUGE_VAL, 1.0}) {
    const std::vector<double> before = p.detach().to_vector<double>();
    muon.zero_grad();
    scaler.scale(sum(p * g)).backward();
    scaler.step(muon);
    scaler.update();
    EXPECT_EQ(p.detach().to_vector<double>() == before, std::isinf(g));
  }
  EXPECT_EQ(muon.state_dict().integer("state.0.step"), 2);
}

// On a GPU's meta device, which only counts.
TEST(Muon, MayBeInACapturedStep) {
  const DefaultDevice here(Device::meta(Device::cuda()));
  const Tensor p = ones({4, 6}).set_requires_grad();
  Muon muon({p});
  auto step = capture([&] {
    muon.zero_grad();
    sum(p * p).backward();
    muon.step();
  });
  for (int i = 0; i < 4; ++i) {
    muon.param_groups()[0].lr = 0.1 / (i + 1);
    muon.param_groups()[0].momentum = 0.5 + 0.1 * i;
    step();
  }
  EXPECT_TRUE(step.is_captured());
  muon.param_groups()[0].ns_steps = 3;
  EXPECT_THROWS_SAYING(step(), CaptureError, "ns_steps or ns_coefficients changed since the step was captured");
}

// The same events, so the same bytes, on a meta device.
TEST(Muon, IsPredictedToTheByte) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    std::vector<Tensor> parameters;
    for (const Shape& shape : equal) parameters.push_back(randn(shape).set_requires_grad());
    Muon muon(parameters);
    for (int i = 0; i < 3; ++i) {
      for (Tensor& p : parameters) p.set_grad(randn(p.shape()));
      muon.step();
    }
  };
  const auto on_cpu = test::record_events(Device::cpu(), program),
             on_meta = test::record_events(Device::meta(), program);
  EXPECT_GT(on_cpu.size(), 50u);
  EXPECT_EQ(test::first_difference(on_cpu, on_meta), "");
}

}  // namespace
}  // namespace bytetape::optim
