// Steps beside faults: whatever other streams and threads leave meanwhile, all launches of a step agree on whether it
// is taken.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

/// What f throws as a fault; empty where it throws none.
std::string fault_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& e) { return e.what(); }
  return "";
}
std::string pending_fault() {
  return fault_of([] { synchronize(gpu); });
}

Tensor parameter(const Shape& shape, DType dtype = DType::f32) {
  Tensor p = ones(shape, dtype, gpu);
  p.set_requires_grad();
  p.set_grad(ones(shape, dtype, gpu));
  return p;
}

/// An index of `rows` rows into two slices, of which the last is out of range: one thread looks through all the others
/// before it leaves the fault, so that `rows` says when that is.
Tensor late_fault(std::int64_t rows) {
  Tensor index = zeros({rows}, DType::i64, gpu);
  fill_(narrow(index, 0, rows - 1, 1), 9);
  return index;
}

class CudaStepAnswer : public GpuTest {
 protected:
  void TearDown() override {
    while (!IsSkipped() && !pending_fault().empty()) continue;  // what a failed test left is not the next one's
  }
};

TEST_F(CudaStepAnswer, IsOneForAllBlocksOfALaunch) {
  constexpr std::int64_t size = std::int64_t{1} << 28;
  if (cuda::mem_get_info(0).total < std::size_t{8} << 30) GTEST_SKIP() << "needs 4 GiB of the GPU's memory";
  const Tensor p = parameter({size});
  optim::SGD sgd({p}, {.lr = 0.001953125});
  sgd.step();
  std::vector<Tensor> indices;
  Tensor x;
  {
    const StreamScope beside(Stream(1));
    x = ones({2, 1}, DType::f32, gpu);
    for (std::int64_t k = 1; k <= 24; ++k) indices.push_back(late_fault(3000 * k));
  }
  synchronize(gpu);
  for (const Tensor& index : indices) {
    {
      const StreamScope beside(Stream(1));
      index_select(x, 0, index);
    }
    sgd.step();
    EXPECT_THAT(pending_fault(), testing::HasSubstr("index 9")) << index.size(0);
    const float least = min(p.detach()).item<float>(), most = max(p.detach()).item<float>();
    ASSERT_EQ(least, most) << "some of the blocks took the step; the fault came behind " << index.size(0) << " rows";
  }
}

/// Parameters of three dtypes, more than a launch takes.
class ManyParameters {
 public:
  ManyParameters() {
    for (int i = 0; i < 1500; ++i) all_.push_back(parameter({3}, dtypes[i % 3]));
  }
  const std::vector<Tensor>& all() const { return all_; }
  /// The different values of all elements.
  std::vector<double> values(bool of_gradients = false) const {
    std::vector<Tensor> wide;
    for (const Tensor& p : all_) wide.push_back(to(of_gradients ? p.grad() : p.detach(), DType::f64));
    std::vector<double> values = cat(wide).to_vector<double>();
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

 private:
  static constexpr DType dtypes[] = {DType::f32, DType::f64, DType::bf16};
  std::vector<Tensor> all_;
};

/// Leaves faults on stream 0 from a thread of its own, some time after it is told to: each time another one.
class Neighbour {
 public:
  Neighbour()
      : thread_([this] {
          const Tensor x = ones({2, 1}, DType::f32, gpu), index = late_fault(1);
          for (int done = 0; done >= 0;) {
            const int wanted = wanted_;
            if (wanted > done) {
              const auto then = std::chrono::steady_clock::now() + std::chrono::microseconds(wanted % 50 * 12);
              while (std::chrono::steady_clock::now() < then) continue;
              index_select(x, 0, index);
            }
            if (wanted != done) done_ = done = wanted;
          }
        }) {}
  ~Neighbour() {
    wanted_ = -1;
    thread_.join();
  }
  void begin() { ++wanted_; }
  void wait() const {
    while (done_ != wanted_) std::this_thread::yield();
  }

 private:
  std::atomic<int> wanted_{0}, done_{0};
  std::thread thread_;
};

TEST_F(CudaStepAnswer, IsOneForAllLaunchesOfAStep) {
  const ManyParameters parameters;
  optim::SGD sgd(parameters.all(), {.lr = 1});  // whole numbers down to -200, which bf16 holds exactly
  sgd.step();
  Neighbour neighbour;
  for (int i = 0; i < 100; ++i) {
    sgd.step();  // waits for the device, as a fault was thrown
    neighbour.begin();
    sgd.step();
    neighbour.wait();
    EXPECT_NE(pending_fault(), "");
    ASSERT_EQ(parameters.values().size(), 1u) << "some of the launches took step " << i;
  }
}

TEST_F(CudaStepAnswer, OfClippingIsThatOfItsStep) {
  const ManyParameters parameters;
  optim::SGD sgd(parameters.all(), {.lr = 1});
  sgd.step();
  Neighbour neighbour;
  for (int i = 0; i < 60; ++i) {
    sgd.step();  // waits for the device, as a fault was thrown
    for (const Tensor& p : parameters.all()) {
      const NoGrad no_grad;
      fill_(p, 1);
      fill_(p.grad(), 1);
    }
    synchronize(gpu);
    const bool is_thrown_between = i % 2 == 1;  // by another thread
    SCOPED_TRACE(detail::concat("step ", i, is_thrown_between ? ", a throw between" : ""));
    neighbour.begin();
    optim::clip_grad_value_(parameters.all(), 0.25);
    if (is_thrown_between) std::thread([] { pending_fault(); }).join();
    fault_of([&] { sgd.step(); });
    neighbour.wait();
    pending_fault();
    const std::vector<double> values = parameters.values(), gradients = parameters.values(true);
    ASSERT_EQ(gradients.size(), 1u) << "some of the launches clipped";
    ASSERT_EQ(values.size(), 1u) << "some of the launches took the step";
    ASSERT_TRUE(values[0] == 1 || gradients[0] == 0.25) << "a step by gradients that were not clipped";
  }
}

// What follows a stream's faulty work, be it by way of others, is skipped; what runs beside it is not.
TEST_F(CudaStepAnswer, IsThatOfWhatTheStreamHasWaitedFor) {
  const Tensor p = parameter({5}), x = ones({2, 1}, DType::f32, gpu);
  const Tensor index = late_fault(3);
  optim::SGD sgd({p}, {.lr = 0.25});
  sgd.step();
  synchronize(gpu);
  const auto value = [&] { return p.detach().to_vector<float>(); };
  const auto all = [](float v) { return std::vector<float>(5, v); };
  const auto leave_on = [&](int stream) {
    const StreamScope scope{Stream(stream)};
    return index_select(x, 0, index);
  };
  float now = 0.75;
  for (const bool is_behind : {true, false, true}) {
    SCOPED_TRACE(is_behind ? "behind" : "beside");
    Tensor y = leave_on(1);
    if (is_behind) {
      {
        const StreamScope scope{Stream(2)};
        y = y + 1;
      }
      y = y + 1;  // stream 0 waits for 2, which has waited for 1
    }
    sgd.step();
    sgd.step();
    EXPECT_NE(pending_fault(), "");
    EXPECT_EQ(pending_fault(), "");
    if (!is_behind) now -= 0.5;
    EXPECT_EQ(value(), all(now));
    for (int stream = 0; stream < 3; ++stream) {  // all streams have forgotten it
      const StreamScope scope{Stream(stream)};
      sgd.step();
      now -= 0.25;
      EXPECT_EQ(value(), all(now)) << "on stream " << stream;
    }
  }
}

TEST_F(CudaStepAnswer, CountsWhatItSkips) {
  const Tensor p = parameter({4}), twin = parameter({4}), x = ones({2, 1}, DType::f32, gpu);
  const Tensor index = late_fault(2);
  optim::AdamW adam({p}, {.lr = 0.1}), undisturbed({twin}, {.lr = 0.1});
  for (int i = 0; i < 6; ++i) {
    if (i % 2) {
      Tensor y;
      {
        const StreamScope scope(Stream(3));
        y = index_select(x, 0, index);
      }
      y = y + 1;
      adam.step();
      adam.step();
      EXPECT_NE(pending_fault(), "");
    }
    adam.step();
    undisturbed.step();
    ASSERT_EQ(p.detach().to_vector<float>(), twin.detach().to_vector<float>()) << "step " << i;
  }
}

// The graph's kernels read where their stream's faults are, and a branch's faults are its stream's.
TEST_F(CudaStepAnswer, HoldsForCapturedSteps) {
  const Tensor p = parameter({4}), x = ones({2, 1}, DType::f32, gpu);
  optim::SGD sgd({p}, {.lr = 0.125});
  for (const bool has_branch : {false, true}) {
    SCOPED_TRACE(has_branch ? "the fault is a branch's" : "the fault is eager, on another stream");
    auto step = capture([&](const Tensor& index) {
      Tensor y;
      {
        const StreamScope scope{Stream(has_branch ? 1 : 0)};
        y = sum(index_select(x, 0, index));
      }
      y = y + 1;
      optim::clip_grad_norm_({p}, 1e6);
      sgd.step();
      return y;
    });
    const Tensor good = zeros({3}, DType::i64, gpu), bad = late_fault(3);
    for (int i = 0; i < 5; ++i) step(good);
    ASSERT_TRUE(step.is_captured());
    synchronize(gpu);
    const auto value = [&] { return p.detach().to_vector<float>()[0]; };
    float now = value();
    for (int i = 0; i < 3; ++i) {
      if (has_branch) {
        step(bad);
      } else {
        Tensor y;
        {
          const StreamScope scope(Stream(2));
          y = index_select(x, 0, bad);
        }
        y = y + 1;
        step(good);
      }
      step(good);
      EXPECT_NE(pending_fault(), "");
      EXPECT_EQ(value(), now);
      step(good);
      EXPECT_EQ(value(), now -= 0.125f);
    }
  }
}

// A branch waits for the stream that began the recording, which may leave its first fault long after it.
TEST_F(CudaStepAnswer, OfARecordedStepHeedsStreamsWithoutAFaultSoFar) {
  const Tensor p = parameter({4}), x = ones({2, 1}, DType::f32, gpu), one = ones({3}, DType::f32, gpu);
  optim::SGD sgd({p}, {.lr = 0.125});
  auto step = capture([&](const Tensor& factor) {
    const Tensor y = factor * 2;
    const StreamScope scope{Stream(1)};
    const Tensor z = y + 1;
    sgd.step();
    return z;
  });
  for (int i = 0; i < 5; ++i) step(one);
  ASSERT_TRUE(step.is_captured());
  const float before = p.detach().to_vector<float>()[0];
  const Tensor lost = index_select(x, 0, late_fault(3));
  step(one);
  EXPECT_NE(pending_fault(), "");
  EXPECT_EQ(p.detach().to_vector<float>()[0], before);
  step(one);
  EXPECT_EQ(p.detach().to_vector<float>()[0], before - 0.125f);
}

// Gradients that a fault has kept scaled are no step's, whoever throws it before the step.
TEST_F(CudaStepAnswer, OfUnscalingIsThatOfItsStep) {
  const Tensor p = parameter({4}), x = ones({2, 1}, DType::f32, gpu);
  optim::SGD sgd({p}, {.lr = 0.25});
  optim::GradScaler scaler({.init_scale = 1024});
  scaler.scale(sum(ones({2}, DType::f32, gpu)));
  const auto set_gradient = [&] { fill_(p.grad(), 1024); };
  scaler.step(sgd);
  scaler.update();
  const float before = p.detach().to_vector<float>()[0];
  set_gradient();
  index_select(x, 0, late_fault(2));
  scaler.unscale_(sgd);
  std::thread([] { EXPECT_NE(pending_fault(), ""); }).join();
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(p.detach().to_vector<float>(), std::vector<float>(4, before));
  EXPECT_EQ(scaler.get_scale(), 1024) << "nothing has overflowed";
  set_gradient();
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(p.detach().to_vector<float>(), std::vector<float>(4, before - 0.25f));
}

}  // namespace
}  // namespace bytetape::test
