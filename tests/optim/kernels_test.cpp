// What kernels of optimizers do beyond what the optimizers ask of them in a plain step: 16-bit shadows, paces that lie
// in memory of the device, steps that are skipped.
#include "bytetape/core/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace bytetape::optim {
namespace {

/// Parameters of one dtype, and what steps of them need.
struct Problem {
  std::vector<Tensor> parameters, gradients, first, second, shadows;

  Problem(Device device, DType dtype, const std::vector<std::int64_t>& offsets = {0, 0, 0, 0}) {
    const std::int64_t sizes[] = {1, 1023, 5000, 70001};
    for (std::size_t i = 0; i < offsets.size(); ++i)
      for (auto* list : {&parameters, &gradients, &first, &second}) {
        const Tensor all = abs(test::random_tensor({sizes[i] + offsets[i]}, dtype));
        list->push_back(narrow(to(all, device), 0, offsets[i], sizes[i]));
      }
  }
  void add_shadows(DType dtype, std::int64_t offset) {
    for (const Tensor& p : parameters)
      shadows.push_back(narrow(zeros(p.numel() + offset, dtype, p.device()), 0, offset, p.numel()));
  }
  OptimizerSlot slot(std::size_t i) const {
    return {parameters[i].write(), gradients[i].read(), shadows.empty() ? View() : shadows[i].write()};
  }
  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> all;
    for (const auto* list : {&parameters, &first, &second})
      for (const Tensor& x : *list) all.push_back(x.to_vector<double>());
    return all;
  }
  Problem copy() const {
    Problem p = *this;
    for (auto* list : {&p.parameters, &p.gradients, &p.first, &p.second})
      for (Tensor& x : *list) x = clone(x);
    return p;
  }
  Device device() const { return parameters[0].device(); }
};

template <class Pace>
using Paces = std::vector<Pace>;
const Paces<SgdPace> sgd_paces{{0.1, false}, {0.2, true}, {0.1, true}, {0.3, false}};
const Paces<AdamPace> adam_paces{{0.1, 0.5, 1}, {0.2, 0.25, 0.99}, {0.1, 0.5, 1}, {0.3, 0.75, 0.9}};

void sgd(const Problem& p, const Paces<SgdPace>& paces, const SgdPace* carried = nullptr) {
  std::vector<SgdSlot> slots;
  for (std::size_t i = 0; i < p.parameters.size(); ++i) slots.push_back({p.slot(i), p.first[i].write()});
  run<&Kernels::sgd>(p.device(), slots, SgdParams{paces, 0.9, 0.1, 0.01, false, carried});
}
void adam(const Problem& p, const Paces<AdamPace>& paces, const AdamPace* carried = nullptr) {
  std::vector<AdamSlot> slots;
  for (std::size_t i = 0; i < p.parameters.size(); ++i)
    slots.push_back({p.slot(i), p.first[i].write(), p.second[i].write()});
  run<&Kernels::adam>(p.device(), slots, AdamParams{paces, 0.9, 0.99, 1e-6, 0.02, carried});
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
      for (const bool is_adam : {false, true}) {
        SCOPED_TRACE(detail::concat(dtype, " ", offset, is_adam ? " adam" : " sgd"));
        Problem with(device(), DType::f32, {0, 0, 1, 0}), without = with.copy();
        with.add_shadows(dtype, offset);
        for (const Problem* p : {&with, &without}) is_adam ? adam(*p, adam_paces) : sgd(*p, sgd_paces);
        EXPECT_EQ(with.values(), without.values());
        for (std::size_t i = 0; i < with.shadows.size(); ++i)
          EXPECT_EQ(with.shadows[i].to_vector<double>(), to(with.parameters[i], dtype).to_vector<double>());
      }
}

/// Paces in memory of the device.
template <class Pace>
Tensor carried(const Paces<Pace>& paces, Device device) {
  std::vector<std::uint8_t> bytes(paces.size() * sizeof(Pace));
  std::memcpy(bytes.data(), paces.data(), bytes.size());
  return from_vector(bytes, {static_cast<std::int64_t>(bytes.size())}, device);
}

TEST_P(OptimizerKernel, ReadsPacesThatAreCarried) {
  if (device() == Device::cpu()) GTEST_SKIP() << "nothing is captured there";
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    SCOPED_TRACE(detail::concat(dtype));
    const Problem by_value(device(), dtype), by_memory = by_value.copy();
    sgd(by_value, sgd_paces);
    const Tensor for_sgd = carried(sgd_paces, device());
    sgd(by_memory, Paces<SgdPace>(4), static_cast<const SgdPace*>(for_sgd.storage().data()));
    EXPECT_EQ(by_memory.values(), by_value.values());
    adam(by_value, adam_paces);
    const Tensor for_adam = carried(adam_paces, device());
    adam(by_memory, Paces<AdamPace>(4), static_cast<const AdamPace*>(for_adam.storage().data()));
    EXPECT_EQ(by_memory.values(), by_value.values());
  }
}

// More than a launch takes by value.
TEST_P(OptimizerKernel, TakesAnyNumberOfPaces) {
  std::vector<Tensor> parameters;
  std::vector<AdamSlot> slots;
  Paces<AdamPace> paces;
  std::vector<double> expected;
  const Tensor g = ones({3}, DType::f64, device());
  std::vector<Tensor> averages;
  for (int i = 0; i < 30; ++i) {
    parameters.push_back(zeros({3}, DType::f64, device()));
    for (int k = 0; k < 2; ++k) averages.push_back(zeros({3}, DType::f64, device()));
    const Tensor &m = averages[2 * i], &v = averages[2 * i + 1];
    slots.push_back({{parameters[i].write(), g.read()}, m.write(), v.write()});
    paces.push_back({1.0 + i % 13, 1, 1});
  }
  run<&Kernels::adam>(device(), slots, AdamParams{paces, 0, 0, 0, 0});  // every step is one of length `rate`
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(parameters[i].to_vector<double>(), (std::vector<double>(3, -1.0 - i % 13))) << i;
}

}  // namespace
}  // namespace bytetape::optim
