// Predictions are what happens, event by event: on the CPU here, on a GPU in tests/cuda/predict_test.cpp.
#include "bytetape/core/memory/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/recording.h"
#include "examples/mnist/models.h"
#include "tests/support/memory.h"
#include "tests/support/predict_cases.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

class Predict : public testing::TestWithParam<std::size_t> {
 protected:
  static const PredictCase& program() { return predict_cases()[GetParam()]; }
};

TEST_P(Predict, IsWhatHappens) {
  const memory::Prediction p = expect_as_predicted(program(), Device::cpu());
  EXPECT_EQ(p.is_settled(), program().settles);
  EXPECT_GE(p.steps.size(), 3u);
}

// Where it begins to be tight the cache goes back to the system and segments are smaller; then steps run out of memory.
TEST_P(Predict, IsWhatHappensNearALimit) {
  const memory::Prediction usual = memory::predict(Device::cpu(), program().build);
  const std::size_t allocated = usual.peak_allocated(), reserved = usual.peak_reserved();
  for (const std::size_t limit : {reserved - 512, (allocated + reserved) / 2, allocated + 512, allocated / 2}) {
    SCOPED_TRACE(limit);
    const memory::Prediction p = expect_as_predicted(program(), Device::cpu(), {.limit = limit});
    EXPECT_TRUE(limit >= allocated || !p.fits() || program().name == "sets_a_limit");
  }
}

INSTANTIATE_TEST_SUITE_P(, Predict, testing::Range(std::size_t{0}, predict_cases().size()),
                         [](const auto& info) { return predict_cases()[info.param].name; });

// [training]
struct Training {
  nn::Sequential net = examples::mnist_cnn();
  optim::Adam adam{net.parameters()};
  std::int64_t batch;
  explicit Training(std::int64_t batch) : batch(batch) {}

  void operator()() {
    const memory::Step step;
    const Tensor x = rand({batch, 1, 28, 28}, DType::f32, default_device(), default_generator(), memory::Role::input);
    const Tensor y = zeros(batch, DType::i64, default_device(), memory::Role::input);
    adam.zero_grad();
    cross_entropy(net(x), y).backward();
    adam.step();
  }
};
// [training]

TEST(PredictTraining, IsAsTheDocumentationHasIt) {
  const std::size_t gib = std::size_t{1} << 30;
  const memory::Prediction p = memory::predict(Device::cuda(), [] { return Training(64); });
  const std::string page = memory::summarize(p);
  EXPECT_GT(p.peak_reserved(), p.peak_allocated());
  EXPECT_NE(page.find("predicted for cuda: "), std::string::npos);
  const memory::Largest batch =
      memory::largest(Device::cuda(), 8 * gib, 1, 60000, [](std::int64_t n) { return Training(n); });
  ASSERT_TRUE(batch.n);
  EXPECT_GT(*batch.n, 1000);
  EXPECT_LE(batch.prediction.peak_reserved(), 8 * gib);
}

/// All of a device's records but when they were and by which thread, in words.
std::vector<std::string> told(const memory::Log& log, const memory::DeviceLog& d) {
  std::vector<std::string> all;
  for (const memory::Record& r : d.records) {
    const memory::Event& e = r.event;
    std::string text = memory::to_string(e.kind) + std::string(" ") + memory::to_string(e.role) + ' ' +
                       memory::to_string(e.old_role) + ' ' + memory::to_string(e.phase);
    for (const auto n : {e.offset, e.bytes, e.requested, std::uint64_t{e.segment}, std::uint64_t{e.step}})
      text += ' ' + std::to_string(n);
    for (const auto n : {e.module, e.op, e.old_module, r.by_module, r.by_op, r.what}) text += ' ' + log.names[n];
    all.push_back(text);
  }
  return all;
}

TEST(PredictTraining, OnPaperIsWhatIsRecordedOfARun) {
  const TemporaryDir dir;
  const std::string path = dir / "predicted.memlog", measured = dir / "run.memlog";
  const memory::Prediction p = memory::predict(Device::cpu(), [] { return Training(64); }, {.recording = path});
  memory::empty_cache(Device::cpu());
  memory::reset_log(Device::cpu());  // steps begin with the first
  ASSERT_EQ(allocated(), 0u);
  {
    memory::Recording recording(measured);
    Training training(64);
    for (std::size_t i = 0; i < p.steps.size(); ++i) training();
    recording.finish();
  }
  const memory::Log predicted = memory::read_log(path), run = memory::read_log(measured);
  const memory::DeviceLog& device = *std::ranges::find(run.devices, "cpu", &memory::DeviceLog::name);
  EXPECT_EQ(told(predicted, predicted.devices.at(0)), told(run, device));

  memory::predict(Device::cuda(), [] { return Training(64); }, {.recording = path});
  EXPECT_EQ(memory::read_log(path).devices.at(0).name, "meta:cuda");
}

TEST(PredictTraining, TakesLessTimeThanAStep) {
  using Clock = std::chrono::steady_clock;
  const auto milliseconds = [](Clock::time_point since) {
    return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
  };
  Training training(256);
  training();
  const auto start = Clock::now();
  training();
  const double run = milliseconds(start);
  const auto start_of_prediction = Clock::now();
  const memory::Prediction p = memory::predict(Device::cpu(), [] { return Training(256); });
  const double predicted = milliseconds(start_of_prediction) / static_cast<double>(p.steps.size());
  RecordProperty("milliseconds of a step", std::to_string(run));
  RecordProperty("milliseconds of a predicted step", std::to_string(predicted));
  EXPECT_LT(predicted, run / 2) << "a step, and the model's making with the first";
}

}  // namespace
}  // namespace bytetape::test
