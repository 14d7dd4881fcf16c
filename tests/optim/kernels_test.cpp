// What kernels of optimizers do beyond what the optimizers ask of them in a plain step: 16-bit shadows, step params
// that lie in memory of the device, steps that are skipped.
#include "bytetape/core/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "tests/support/device.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::optim {
namespace {

/// Parameters of one dtype, and what steps of them need.
struct Problem {
  std::vector<Tensor> parameters, gradients, first, second, third, shadows;
  Tensor skips;  // by parameter; undefined as a rule

  Problem(Device device, DType dtype, const std::vector<std::int64_t>& offsets = {0, 0, 0, 0}) {
    const std::int64_t sizes[] = {1, 1023, 5000, 70001};
    for (std::size_t i = 0; i < offsets.size(); ++i)
      for (auto* list : {&parameters, &gradients, &first, &second}) {
        const Tensor all = abs(test::random_tensor({sizes[i] + offsets[i]}, dtype));
        list->push_back(narrow(to(all, device), 0, offsets[i], sizes[i]));
      }
    for (const Tensor& x : second) third.push_back(zeros_like(x));
  }
  void add_shadows(DType dtype, std::int64_t offset) {
    for (const Tensor& p : parameters)
      shadows.push_back(narrow(zeros(p.numel() + offset, dtype, p.device()), 0, offset, p.numel()));
  }
  OptimizerSlot slot(std::size_t i) const {
    return {parameters[i].write(), gradients[i].read(), shadows.empty() ? View() : shadows[i].write(),
            skips.defined() ? skips.write().as<std::int64_t>() + i : nullptr};
  }
  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> all;
    for (const auto* list : {&parameters, &first, &second, &third})
      for (const Tensor& x : *list) all.push_back(x.to_vector<double>());
    return all;
  }
  Problem copy() const {
    Problem p = *this;
    for (auto* list : {&p.parameters, &p.gradients, &p.first, &p.second, &p.third})
      for (Tensor& x : *list) x = clone(x);
    return p;
  }
  Device device() const { return parameters[0].device(); }
};

template <class StepParams>
using AllStepParams = std::vector<StepParams>;
const AllStepParams<SgdStepParams> sgd_paces{
    {0.1, 0.9, 0.1, 0.01, 0, 2}, {0.2, 0.9, 0.1, 0.01, 0, 1}, {0.1, 0.8, 0, 0, 1, 1}, {0.3, 0, 0, 0.1, 0, 5}};
AdamStepParams adam_pace_of(double lr, double keep, std::int64_t step) {
  return at_step(
      AdamStepParams{.lr = lr, .beta1 = 0.9, .beta2 = 1 - lr / 10, .eps = 1e-6, .weight_decay = lr / 5, .keep = keep},
      step);
}
const AllStepParams<AdamStepParams> adam_paces{adam_pace_of(0.1, 1, 3), adam_pace_of(0.2, 0.99, 1),
                                               adam_pace_of(0.1, 1, 3), adam_pace_of(0.3, 0.9, 70)};

void sgd(const Problem& p, const AllStepParams<SgdStepParams>& step_params,
         const SgdStepParams* replay_params = nullptr, const float* found_inf = nullptr) {
  std::vector<SgdSlot> slots;
  for (std::size_t i = 0; i < p.parameters.size(); ++i)  // without momentum there need be no buffer
    slots.push_back({p.slot(i), sgd_paces[i].momentum != 0 ? p.first[i].write() : View()});
  run<&OptimizerKernels::sgd>(p.device(), slots, SgdParams{step_params, replay_params, found_inf});
}
void adam(const Problem& p, const AllStepParams<AdamStepParams>& step_params,
          const AdamStepParams* replay_params = nullptr, const float* found_inf = nullptr) {
  std::vector<AdamSlot> slots;
  for (std::size_t i = 0; i < p.parameters.size(); ++i)
    slots.push_back({p.slot(i), p.first[i].write(), p.second[i].write()});
  run<&OptimizerKernels::adam>(p.device(), slots, AdamParams{step_params, replay_params, found_inf});
}

const AllStepParams<RmspropStepParams> rmsprop_params{{0.1, 0.9, 1e-6, 0.1, 0.9, 1},
                                                      {0.2, 0.8, 1e-8, 0, 0.5, 0},
                                                      {0.1, 0.9, 1e-6, 0, 0, 1},
                                                      {0.3, 0.5, 1e-4, 0.01, 0, 0}};
void rmsprop(const Problem& p, const AllStepParams<RmspropStepParams>& step_params,
             const RmspropStepParams* replay_params = nullptr, const float* found_inf = nullptr) {
  std::vector<RmspropSlot> slots;
  for (std::size_t i = 0; i < p.parameters.size(); ++i)  // state that the options do not need may be undefined
    slots.push_back({p.slot(i), p.second[i].write(), rmsprop_params[i].momentum != 0 ? p.first[i].write() : View(),
                     rmsprop_params[i].is_centered != 0 ? p.third[i].write() : View()});
  run<&OptimizerKernels::rmsprop>(p.device(), slots, RmspropParams{step_params, replay_params, found_inf});
}

class OptimizerKernel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!test::is_available(device())) GTEST_SKIP() << "no CUDA device can be used";
  }
  static Device device() { return Device::parse(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, OptimizerKernel, testing::Values("cpu", "cuda"), [](const auto& i) { return i.param; });

TEST_P(OptimizerKernel, WritesTheShadowOfAParameter) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t offset : {0, 1, 4})  // not every vector of a shadow is aligned where the parameter's is
      for (const int rule : {0, 1, 2}) {
        SCOPED_TRACE(detail::concat(dtype, " ", offset, " rule ", rule));
        Problem with(device(), DType::f32, {0, 0, 1, 0}), without = with.copy();
        with.add_shadows(dtype, offset);
        for (const Problem* p : {&with, &without})
          rule == 0 ? sgd(*p, sgd_paces) : rule == 1 ? adam(*p, adam_paces) : rmsprop(*p, rmsprop_params);
        EXPECT_EQ(with.values(), without.values());
        for (std::size_t i = 0; i < with.shadows.size(); ++i)
          EXPECT_EQ(with.shadows[i].to_vector<double>(), to(with.parameters[i], dtype).to_vector<double>());
      }
}

TEST_P(OptimizerKernel, TakesGradientsOf16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t offset : {0, 1, 4})  // not every vector of a gradient is aligned where the parameter's is
      for (const int rule : {0, 1, 2}) {
        SCOPED_TRACE(detail::concat(dtype, " ", offset, " rule ", rule));
        Problem narrow_ones(device(), DType::f32, {0, 0, 1, 0}), wide_ones = narrow_ones.copy();
        for (std::size_t i = 0; i < wide_ones.gradients.size(); ++i) {
          const std::int64_t size = wide_ones.gradients[i].numel();
          const Tensor all = empty({size + offset}, dtype, device());
          narrow_ones.gradients[i] = narrow(all, 0, offset, size);
          copy_(narrow_ones.gradients[i], wide_ones.gradients[i]);
          wide_ones.gradients[i] = to(narrow_ones.gradients[i], DType::f32);
        }
        for (const Problem* p : {&narrow_ones, &wide_ones})
          rule == 0 ? sgd(*p, sgd_paces) : rule == 1 ? adam(*p, adam_paces) : rmsprop(*p, rmsprop_params);
        EXPECT_EQ(narrow_ones.values(), wide_ones.values());
      }
}

/// AllStepParams in memory of the device.
template <class StepParams>
Tensor replay_params(const AllStepParams<StepParams>& step_params, Device device) {
  std::vector<std::uint8_t> bytes(step_params.size() * sizeof(StepParams));
  std::memcpy(bytes.data(), step_params.data(), bytes.size());
  return from_vector(bytes, {static_cast<std::int64_t>(bytes.size())}, device);
}

TEST_P(OptimizerKernel, ReadsStepParamsOfAReplay) {
  if (device() == Device::cpu()) GTEST_SKIP() << "nothing is captured there";
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    SCOPED_TRACE(detail::concat(dtype));
    const Problem by_value(device(), dtype), by_memory = by_value.copy();
    sgd(by_value, sgd_paces);
    const Tensor for_sgd = replay_params(sgd_paces, device());
    sgd(by_memory, AllStepParams<SgdStepParams>(4), static_cast<const SgdStepParams*>(for_sgd.storage().data()));
    EXPECT_EQ(by_memory.values(), by_value.values());
    adam(by_value, adam_paces);
    const Tensor for_adam = replay_params(adam_paces, device());
    adam(by_memory, AllStepParams<AdamStepParams>(4), static_cast<const AdamStepParams*>(for_adam.storage().data()));
    EXPECT_EQ(by_memory.values(), by_value.values());
    rmsprop(by_value, rmsprop_params);
    const Tensor for_rmsprop = replay_params(rmsprop_params, device());
    rmsprop(by_memory, AllStepParams<RmspropStepParams>(4),
            static_cast<const RmspropStepParams*>(for_rmsprop.storage().data()));
    EXPECT_EQ(by_memory.values(), by_value.values());
  }
}

// AllStepParams of a gradient scaler's step count what the device was given: it takes off what it skipped.
TEST_P(OptimizerKernel, TakesSkippedStepsOffUnderAScaler) {
  const std::vector<std::int64_t> skipped{0, 4, 1, 17};
  AllStepParams<SgdStepParams> given_sgd = sgd_paces;
  AllStepParams<AdamStepParams> given_adam = adam_paces;
  for (std::size_t i = 0; i < skipped.size(); ++i) {
    given_sgd[i].step += skipped[i];
    const AdamStepParams& p = adam_paces[i];
    given_adam[i] = adam_pace_of(p.lr, p.keep, p.step + skipped[i]);
  }
  const Tensor found_inf = zeros({}, DType::f32, device());
  const auto* word = found_inf.read().as<float>();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(detail::concat(dtype));
    const Problem plain(device(), dtype, {0, 0, 1, 3});
    Problem scaled = plain.copy();
    scaled.skips = from_vector(skipped, {4}, device());
    sgd(plain, sgd_paces);
    sgd(scaled, given_sgd, nullptr, word);
    EXPECT_EQ(scaled.values(), plain.values());
    adam(plain, adam_paces);
    adam(scaled, given_adam, nullptr, word);
    EXPECT_EQ(scaled.values(), plain.values());
    EXPECT_EQ(scaled.skips.to_vector<std::int64_t>(), skipped);
    if (device() == Device::cpu()) continue;
    const Tensor for_adam = replay_params(given_adam, device());
    adam(plain, adam_paces);
    adam(scaled, AllStepParams<AdamStepParams>(4), static_cast<const AdamStepParams*>(for_adam.storage().data()), word);
    EXPECT_EQ(scaled.values(), plain.values());
  }
}

TEST_P(OptimizerKernel, SkipsWhatOverflowed) {
  const Tensor found_inf = ones({}, DType::f32, device());
  const auto* word = found_inf.read().as<float>();
  for (const DType dtype : {DType::f32, DType::f16}) {
    Problem p(device(), dtype);
    if (dtype == DType::f32) p.add_shadows(DType::f16, 0);
    p.skips = from_vector(std::vector<std::int64_t>{0, 1, 2, 3}, {4}, device());
    const auto before = p.values();
    sgd(p, sgd_paces, nullptr, word);
    adam(p, adam_paces, nullptr, word);
    rmsprop(p, rmsprop_params, nullptr, word);
    EXPECT_EQ(p.values(), before);
    EXPECT_EQ(p.skips.to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 4, 5, 6}));
    for (const Tensor& s : p.shadows) EXPECT_EQ(s.to_vector<double>(), std::vector<double>(s.numel(), 0));
  }
}

TEST_P(OptimizerKernel, AveragesByEachSlotsWeight) {
  const AllStepParams<EmaStepParams> step_params{{0.1}, {0.75}, {1}, {0}};
  for (const auto& [dtype, most] :
       {std::pair{DType::f64, 1e-15}, {DType::f32, 1e-6}, {DType::bf16, 1e-2}, {DType::f16, 1e-3}})
    for (const bool is_carried : {false, true}) {
      SCOPED_TRACE(detail::concat(dtype));
      if (is_carried && device() == Device::cpu()) continue;
      const Problem p(device(), dtype, {0, 0, 1, 3});
      std::vector<OptimizerSlot> slots;
      std::vector<Tensor> expected;
      for (std::size_t i = 0; i < 4; ++i) {
        slots.push_back(p.slot(i));
        const Tensor a = to(p.parameters[i], DType::f64), b = to(p.gradients[i], DType::f64);
        expected.push_back(a * (1 - step_params[i].weight) + b * step_params[i].weight);
      }
      const Tensor memory = replay_params(step_params, device());
      const AllStepParams<EmaStepParams> none(4);
      run<&OptimizerKernels::ema>(device(), slots,
                                  is_carried
                                      ? EmaParams{none, static_cast<const EmaStepParams*>(memory.storage().data())}
                                      : EmaParams{step_params});
      for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(test::all_close(p.parameters[i], expected[i], most, most)) << i;
      EXPECT_EQ(p.parameters[2].to_vector<double>(), p.gradients[2].to_vector<double>());
    }
}

TEST(Power, IsThatOfTheStandardLibrary) {
  for (const double base : {0.0, 0.5, 0.9, 0.999, 0.99999})
    for (const std::int64_t n : {0, 1, 2, 3, 7, 64, 1000, 99999})
      EXPECT_NEAR(power(base, n), std::pow(base, n), 1e-11) << base << " to the " << n;
}

// More than a launch takes by value.
TEST_P(OptimizerKernel, TakesAnyNumberOfStepParams) {
  std::vector<Tensor> parameters;
  std::vector<AdamSlot> slots;
  AllStepParams<AdamStepParams> step_params;
  std::vector<double> expected;
  const Tensor g = ones({3}, DType::f64, device());
  std::vector<Tensor> averages;
  for (int i = 0; i < 30; ++i) {
    parameters.push_back(zeros({3}, DType::f64, device()));
    for (int k = 0; k < 2; ++k) averages.push_back(zeros({3}, DType::f64, device()));
    const Tensor &m = averages[2 * i], &v = averages[2 * i + 1];
    slots.push_back({{parameters[i].write(), g.read()}, m.write(), v.write()});
    step_params.push_back(
        at_step(AdamStepParams{.lr = 1.0 + i % 29, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0, .keep = 1}, 1));
  }
  run<&OptimizerKernels::adam>(device(), slots, AdamParams{step_params});  // every step is one of length `rate`
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(parameters[i].to_vector<double>(), (std::vector<double>(3, -1.0 - i % 29))) << i;
}

}  // namespace
}  // namespace bytetape::optim
