// What only the device can see to be wrong: left by the kernel, thrown at the host's next look.
#include "bytetape/core/device/fault.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

/// What f says as it throws; empty where it does not.
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& e) { return e.what(); }
  return "";
}

class CudaFault : public GpuTest {
 protected:
  /// Losses by row of five over three classes, of which rows 2 and 4 have no such target.
  static Tensor losses(Device device, DType dtype = DType::f64, const std::vector<std::int64_t>& targets = faulty) {
    const memory::ModuleScope module(memory::intern("net.head"));
    std::vector<double> logits(15);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<double>(i * 7 % 5) - 1.5;
    return cross_entropy(make_tensor(logits, {5, 3}, dtype, device), from_vector(targets, {5}, device),
                         {.reduction = Reduction::none});
  }
  void TearDown() override {
    if (!IsSkipped()) message_of([] { synchronize(gpu); });  // what a failed test left is not the next one's
  }
  inline static const std::vector<std::int64_t> faulty{0, 1, 7, 2, -3}, ignored{0, 1, -100, 2, -100};
};

TEST_F(CudaFault, IsThrownOnceAtTheNextReadInTheWordsOfTheCpu) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    SCOPED_TRACE(detail::concat(dtype));
    const std::string words = message_of([&] { losses(Device::cpu(), dtype); });
    EXPECT_THAT(words, testing::StartsWith("cross_entropy in module 'net.head': target 7 is not in [0, 3)"));
    const Tensor other = full({2}, 2.5, DType::f32, gpu), one = full({}, 4, DType::i64, gpu);
    const std::function<void()> looks[] = {
        [&] { EXPECT_EQ(one.item<std::int64_t>(), 4); },
        [&] {
          EXPECT_EQ(other.to_vector<float>(), (std::vector<float>{2.5, 2.5}));
        },
        [&] { to(other, Device::cpu()); },
        [&] { std::ostringstream() << other; },
        [&] { synchronize(gpu); },
    };
    for (std::size_t i = 0; i < std::size(looks); ++i) {
      SCOPED_TRACE(detail::concat("look ", i));
      losses(gpu, dtype);  // does not throw
      EXPECT_EQ(message_of(looks[i]), words);
      EXPECT_EQ(message_of(looks[i]), "");
      synchronize(gpu);
    }
  }
}

TEST_F(CudaFault, LeavesTheOtherRowsTheirValues) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double most = dtype == DType::f64 ? 1e-12 : 1e-5;
    const Tensor there = losses(gpu, dtype);
    EXPECT_THROW(there.to_vector<double>(), ValueError);
    EXPECT_TRUE(all_close(there, losses(Device::cpu(), dtype, ignored), most, most)) << "faulty rows count as zero";
  }
}

TEST_F(CudaFault, LeavesTheOtherRowsTheirGradients) {
  const Tensor logits = random_tensor({5, 3});
  const auto gradient = [&](Device device, const std::vector<std::int64_t>& targets, bool recorded) {
    Tensor x = clone(to(logits, device));
    x.set_requires_grad();
    const Tensor loss = cross_entropy(x, from_vector(targets, {5}, device), {.reduction = Reduction::sum});
    return grad({loss}, {x}, {.create_graph = recorded})[0].detach();
  };
  for (const bool recorded : {false, true}) {
    const Tensor g = gradient(gpu, faulty, recorded);
    EXPECT_NE(message_of([] { synchronize(gpu); }), "");
    EXPECT_TRUE(all_close(g, gradient(Device::cpu(), ignored, recorded)));
  }
}

TEST_F(CudaFault, OfManyIsThatOfTheFirstRow) {
  constexpr std::int64_t n = 5000, classes = 20;  // many blocks
  const Tensor logits = to(random_tensor({n, classes}, DType::f32), gpu);
  for (const std::size_t first : {0, 13, 2600, 4998}) {
    std::vector<std::int64_t> targets(n, 3);
    for (std::size_t i = first; i < targets.size(); i += 61) targets[i] = 100 + static_cast<std::int64_t>(i);
    const Tensor loss = cross_entropy(logits, from_vector(targets, n, gpu));
    const std::string words = message_of([&] { loss.item(); });
    EXPECT_THAT(words, testing::HasSubstr(detail::concat("target ", 100 + first, " is not in [0, 20)")));
  }
}

TEST_F(CudaFault, OfSeveralOpsIsThatOfTheFirst) {
  losses(gpu);
  cross_entropy(full({1, 2}, 0, DType::f32, gpu), full(1, 9, DType::i64, gpu));
  EXPECT_THAT(message_of([] { synchronize(gpu); }), testing::HasSubstr("target 7"));
  EXPECT_EQ(message_of([] { synchronize(gpu); }), "");
}

TEST_F(CudaFault, OutlivesItsThread) {
  const std::string words = message_of([] { losses(Device::cpu()); });
  std::thread([] { losses(gpu); }).join();
  EXPECT_EQ(message_of([] { synchronize(gpu); }), words);
}

TEST_F(CudaFault, LeavesTheDeviceUsable) {
  for (int i = 0; i < 3; ++i) {
    losses(gpu);
    EXPECT_THROW(synchronize(gpu), ValueError);
    EXPECT_EQ(sum(ones({100}, DType::f32, gpu)).item<float>(), 100);
    EXPECT_TRUE(all_close(losses(gpu, DType::f64, ignored), losses(Device::cpu(), DType::f64, ignored)));
  }
}

/// A model of one layer, whose steps may be given a target that is no class.
class Training {
 public:
  explicit Training(std::unique_ptr<optim::Optimizer> (*make)(std::vector<Tensor>)) : optimizer_(make({weight_})) {}

  /// With inputs that depend on `seed`, and clipped gradients. Does not wait for the device.
  void step(int seed, bool is_faulty = false) {
    std::vector<double> x(10);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i) + 2.5 * seed);
    optimizer_->zero_grad();
    const Tensor target = from_vector(std::vector<std::int64_t>{0, 2, 1, is_faulty ? 9 : 0, 1}, {5}, gpu);
    cross_entropy(matmul(make_tensor(x, {5, 2}, DType::f64, gpu), weight_), target).backward();
    optim::clip_grad_norm_({weight_}, 0.1);
    optimizer_->step();
  }
  std::vector<double> weight() const { return weight_.detach().to_vector<double>(); }

 private:
  Tensor weight_ = make_tensor({1, -1, 0.5, 0, 2, -0.5}, {2, 3}, DType::f64, gpu).set_requires_grad();
  std::unique_ptr<optim::Optimizer> optimizer_;
};

constexpr std::unique_ptr<optim::Optimizer> (*optimizers[])(std::vector<Tensor>) = {
    [](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
      return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3});
    },
    [](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
      return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 0.1});
    },
};

TEST_F(CudaFault, StepsBehindItAreNotTaken) {
  for (const auto& make : optimizers)
    for (const bool is_first : {true, false}) {
      SCOPED_TRACE(detail::concat("optimizer ", &make - optimizers, is_first ? ", the first step" : ""));
      Training disturbed(make), undisturbed(make);
      for (int i = 0; i < 4; ++i) {
        if (!is_first) disturbed.step(i);
        undisturbed.step(i);
        disturbed.step(11, true);
        disturbed.step(12);  // the host has not looked yet
        disturbed.step(13, true);
        EXPECT_THAT(message_of([] { synchronize(gpu); }), testing::HasSubstr("target 9"));
        EXPECT_EQ(message_of([] { synchronize(gpu); }), "");
        if (is_first) disturbed.step(i);
        ASSERT_EQ(disturbed.weight(), undisturbed.weight()) << "step " << i;
      }
    }
}

TEST_F(CudaFault, LeavesGradientsUnclipped) {
  Tensor p = zeros({3}, DType::f32, gpu).set_requires_grad();
  p.set_grad(full({3}, 2, DType::f32, gpu));
  losses(gpu);
  optim::clip_grad_norm_({p}, 1e-3);
  EXPECT_NE(message_of([] { synchronize(gpu); }), "");
  EXPECT_EQ(p.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
  optim::clip_grad_norm_({p}, 1e-3);
  EXPECT_LT(p.grad().to_vector<float>()[0], 1e-3f);
}

// What the library itself needs on a device is no memory of the ledger's.
TEST_F(CudaFault, TakesNoMemoryOfTheDevice) {
  const auto before = memory::stats(gpu).allocated.current;
  losses(gpu);
  EXPECT_NE(message_of([] { synchronize(gpu); }), "");
  EXPECT_EQ(memory::stats(gpu).allocated.current, before);
}

}  // namespace
}  // namespace bytetape::test
