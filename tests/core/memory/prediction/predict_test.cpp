// What predict() and largest() answer, and that they disturb nothing. That predictions are what happens is in
// tests/memory.
#include "bytetape/core/memory/predict.h"
#include "bytetape/core/memory/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/snapshot_of.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/stand_in.h"
#include "tests/support/temporary_dir.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

using memory::Prediction;
constexpr std::size_t MiB = std::size_t{1} << 20;

/// A class with what a training loop has, which can be neither copied nor moved.
struct Training {
  explicit Training(std::int64_t batch = 32) : batch(batch) {}
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  nn::Sequential net{nn::Linear(64, 256), nn::ReLU(), nn::Dropout(0.1), nn::Linear(256, 10)};
  optim::SGD sgd{net.parameters(), {.lr = 0.1, .momentum = 0.9}};
  std::int64_t batch;

  void operator()() {
    const memory::Step step;
    const Tensor x = randn({batch, 64}, DType::f32, default_device(), default_generator(), memory::Role::input);
    sgd.zero_grad();
    cross_entropy(net(x), randint(0, 10, batch)).backward();
    sgd.step();
  }
};
Training make_training() { return Training(); }

Prediction predict(const memory::PredictOptions& options = {}) {
  return memory::predict(Device::cpu(), make_training, options);
}

TEST(Predict, StopsWhereStepsRepeat) {
  const Prediction p = predict();
  EXPECT_TRUE(p.fits());
  EXPECT_EQ(p.period, 1u);
  EXPECT_EQ(p.device, Device::cpu());
  EXPECT_EQ(p.snapshot.name, "meta");
  EXPECT_EQ(p.threads, num_threads());
  ASSERT_GE(p.steps.size(), 3u);
  EXPECT_EQ(p.steps.back().end_event, p.snapshot.events.size());
  const memory::PredictedStep &before = p.steps[p.steps.size() - 2], &last = p.steps.back();
  EXPECT_EQ(before.end_event, last.first_event);
  EXPECT_EQ(before.end_event - before.first_event, last.end_event - last.first_event);
  EXPECT_EQ(before.by_role, last.by_role);
}

TEST(Predict, FindsStepsThatRepeatByTurns) {
  struct ByTurns {
    int taken = 0;
    Tensor kept;
    void operator()() { kept = zeros(taken++ % 3 == 0 ? 5000 : 100); }
  };
  const Prediction p = memory::predict(Device::cpu(), [] { return ByTurns(); });
  EXPECT_EQ(p.period % 3, 0u);
  EXPECT_GT(p.period, 0u);
  EXPECT_NE(memory::summarize(p).find("repeat with a period of "), std::string::npos) << memory::summarize(p);
}

TEST(Predict, DoesNotTakeEqualGrowthForRest) {
  const auto growing = [] {
    return
        [kept = std::vector<Tensor>()]() mutable { kept.push_back(zeros(std::int64_t{5} << 20)); };  // a segment each
  };
  EXPECT_FALSE(memory::predict(Device::cpu(), growing).is_settled());
  const auto returning = [] {
    return [kept = zeros(10)] {
      zeros(std::int64_t{5} << 20);
      memory::empty_cache(default_device());
    };
  };
  EXPECT_EQ(memory::predict(Device::cpu(), returning).period, 1u) << "other numbers of segments are no difference";
}

TEST(Predict, SaysWhatEachStepTakes) {
  const Prediction p = memory::predict(Device::cpu(), [] { return Training(512); });  // so that backward takes most
  std::size_t allocated = 0, reserved = 0;
  for (const memory::PredictedStep& step : p.steps) {
    std::size_t roles = 0;
    for (const std::size_t bytes : step.by_role) roles += bytes;
    EXPECT_EQ(roles, step.allocated);
    EXPECT_GE(step.reserved, step.allocated);
    allocated = std::max(allocated, step.allocated);
    reserved = std::max(reserved, step.reserved);
  }
  EXPECT_EQ(allocated, p.peak_allocated());
  EXPECT_EQ(reserved, p.peak_reserved());
  const auto momentum = static_cast<std::size_t>(memory::Role::optimizer_state);
  EXPECT_LT(p.steps[0].by_role[momentum], p.steps.back().by_role[momentum])
      << "it is made at the end of the first step";
}

TEST(Predict, AStepsReservedPeakIsOfTheStep) {
  if (memory::mode_from_environment() != memory::Allocator::Mode::caching) GTEST_SKIP() << "nothing is cached";
  const auto program = [] {
    empty(std::int64_t{30} * MiB, DType::u8);  // stays cached until the first step empties the cache
    return [] {
      empty(std::int64_t{12} * MiB, DType::u8);
      memory::empty_cache(default_device());
    };
  };
  const Prediction p = memory::predict(Device::cpu(), program);
  ASSERT_GE(p.steps.size(), 2u);
  EXPECT_EQ(p.steps[0].reserved, 30 * MiB) << "what was cached before";
  EXPECT_EQ(p.steps[1].reserved, 12 * MiB);
  EXPECT_EQ(p.steps[1].allocated, 12 * MiB);
}

// Both tables of the page are about one moment.
TEST(Predict, SplitsAStepsPeakAsTheBooksDo) {
  const Prediction p = memory::predict(Device::cpu(), [] {
    return [] {
      const Tensor x = empty({1 << 18});
      x.storage().set_role(memory::Role::optimizer_state);
    };
  });
  EXPECT_EQ(p.steps.at(0).allocated, p.snapshot.statistics.allocated.peak);
  EXPECT_EQ(p.steps.at(0).by_role, p.snapshot.statistics.at_peak);
  EXPECT_EQ(p.steps.at(0).by_role[static_cast<std::size_t>(memory::Role::optimizer_state)], MiB);
}

TEST(Predict, TakesAsManyStepsAsItMust) {
  EXPECT_EQ(predict({.min_steps = 11}).steps.size(), 11u);
  EXPECT_EQ(predict({.min_steps = 11, .max_steps = 8}).steps.size(), 8u);
}

TEST(Predict, TakesNoMoreStepsThanItMay) {
  const auto growing = [] { return [kept = std::vector<Tensor>()]() mutable { kept.push_back(zeros(1000)); }; };
  const Prediction p = memory::predict(Device::cpu(), growing, {.max_steps = 6});
  EXPECT_EQ(p.steps.size(), 6u);
  EXPECT_FALSE(p.is_settled());
  EXPECT_EQ(memory::predict(Device::cpu(), growing).steps.size(), 16u);
  EXPECT_EQ(predict({.max_steps = 1}).steps.size(), 1u);
}

TEST(Predict, DisturbsNothing) {
  const Tensor held = zeros(5000), held_on_meta = zeros(5000, DType::f32, Device::meta());
  for (const Device d : {Device::cpu(), Device::meta()}) memory::reset_log(d);  // a full log would count nothing
  const auto log_of = [](Device d) { return memory::snapshot(d).events.size(); };
  const std::size_t before = log_of({}), before_on_meta = log_of(Device::meta());
  const PhiloxState drawn = default_generator().state();
  const memory::Step step;
  const std::size_t marks = log_of({});
  const memory::ModuleScope module(memory::intern("outer"));
  const memory::Op<"outside"> op;
  const memory::ScopeIds scope = memory::ambient.scope;
  const Autocast autocast(DType::bf16);
  const Prediction p = memory::predict(Device::cpu(), [] {
    manual_seed(7);
    rand(3, DType::f32, Device::cpu());
    set_num_threads(1);
    return Training();
  });
  const std::size_t events_of_a_tensor = memory::mode_from_environment() == memory::Allocator::Mode::caching ? 2 : 4;
  EXPECT_EQ(log_of({}), marks + events_of_a_tensor) << "but for what it did on the CPU itself";
  EXPECT_EQ(marks, before + 1);
  EXPECT_EQ(log_of(Device::meta()), before_on_meta);
  EXPECT_EQ(default_generator().state().seed, drawn.seed);
  EXPECT_EQ(default_generator().state().offset, drawn.offset);
  EXPECT_EQ(memory::ambient.scope.module, scope.module);
  EXPECT_EQ(memory::ambient.scope.op, scope.op);
  EXPECT_EQ(memory::ambient.scope.phase, scope.phase);
  EXPECT_EQ(default_device(), Device::cpu());
  EXPECT_EQ(autocast_dtype(), DType::bf16);
  EXPECT_EQ(p.snapshot.events[0].phase, memory::Phase::setup) << "it begins where a thread does";
  EXPECT_EQ(p.snapshot.events[0].segment, 0u);
  for (const memory::Event& e : p.snapshot.events) EXPECT_NE(memory::name_of(e.module), "outer");
}

TEST(Predict, IsNoPartOfARecording) {
  const test::TemporaryDir dir;
  const std::string path = dir / "run.memlog";
  {
    memory::Recording recording(path);
    memory::predict(Device::cuda(5), make_training);
    recording.finish();
  }
  for (const memory::DeviceLog& d : memory::read_log(path).devices)
    EXPECT_TRUE(d.records.empty() || d.name != "meta:cuda:5");
}

TEST(Predict, IsRecordedWhereToldTo) {
  const test::TemporaryDir dir;
  const std::string path = dir / "predicted.memlog";
  std::atomic<bool> ends = false;
  std::jthread beside([&] {
    while (!ends) const memory::Scope elsewhere("elsewhere");
  });
  const Prediction p = memory::predict(Device::cuda(5), make_training,
                                       {.limit = 64 * MiB, .recording = path, .program = "training, predicted"});
  ends = true;
  beside.join();
  EXPECT_EQ(memory::recording_path(), "");
  const memory::Log log = memory::read_log(path);
  EXPECT_TRUE(log.complete);
  EXPECT_EQ(log.program, "training, predicted");
  ASSERT_EQ(log.devices.size(), 1u);
  EXPECT_EQ(log.devices[0].name, "meta:cuda:5");
  EXPECT_EQ(log.devices[0].limit, 64 * MiB);
  EXPECT_EQ(log.devices[0].end->allocated.current, p.snapshot.statistics.allocated.current);
  EXPECT_EQ(test::first_difference(memory::snapshot_of(log, log.devices[0]).events, p.snapshot.events), "");
  const auto is_hold = [](const memory::Record& r) { return r.event.kind == memory::EventKind::hold; };
  EXPECT_TRUE(std::any_of(log.devices[0].records.begin(), log.devices[0].records.end(), is_hold));
  EXPECT_FALSE(log.marks.empty());
  for (const memory::Mark& m : log.marks) EXPECT_NE(log.names[m.name], "elsewhere");

  memory::Recording recording(path);
  EXPECT_THROWS_SAYING(predict({.recording = dir / "other.memlog"}), ValueError,
                       "is already running: finish() it first");
}

TEST(Predict, IsAloneInItsRecording) {
  const test::TemporaryDir dir;
  const auto with_another = [&] {
    EXPECT_THROWS_SAYING(const memory::Recording other(dir / "other.memlog"), ValueError,
                         "a prediction is being recorded to '");
    const memory::Scope scope("around");
    memory::predict(Device::cpu(), [] {
      const memory::Scope within("within");
      return Training();
    });
    return Training();
  };
  memory::predict(Device::cpu(), with_another, {.recording = dir / "predicted.memlog"});
  const memory::Log log = memory::read_log(dir / "predicted.memlog");
  std::set<std::string> names;
  for (const memory::Mark& m : log.marks) names.insert(log.names[m.name]);
  EXPECT_TRUE(names.contains("around"));
  EXPECT_FALSE(names.contains("around.within") || names.contains("within"));
  EXPECT_EQ(log.devices.size(), 1u);

  memory::Recording recording(dir / "run.memlog");
  memory::predict(Device::cpu(), make_training);
  recording.finish();
  EXPECT_TRUE(memory::read_log(dir / "run.memlog").marks.empty());
}

TEST(Predict, RecordsTheHostsMemoryToo) {
  const test::TemporaryDir dir;
  const auto copies = [] { return [] { to(zeros({1 << 20}, DType::f32, Device::meta()), default_device()); }; };
  const Prediction p = memory::predict(Device::cuda(), copies, {.recording = dir / "predicted.memlog"});
  const memory::Log log = memory::read_log(dir / "predicted.memlog");
  ASSERT_EQ(log.devices.size(), 1 + p.others.size());
  ASSERT_FALSE(p.others.empty());
  for (const memory::Snapshot& s : p.others) {
    const auto its = std::ranges::find(log.devices, s.name, &memory::DeviceLog::name);
    ASSERT_NE(its, log.devices.end()) << s.name;
    EXPECT_EQ(test::first_difference(memory::snapshot_of(log, *its).events, s.events), "");
  }
}

TEST(Predict, IsRecordedUpToWhereMemoryRunsOut) {
  const test::TemporaryDir dir;
  const std::string path = dir / "predicted.memlog";
  const Prediction p = predict({.limit = predict().steps[0].allocated / 2, .recording = path});
  EXPECT_FALSE(p.fits());
  const memory::Log log = memory::read_log(path);
  EXPECT_TRUE(log.complete);
  EXPECT_EQ(log.program.substr(log.program.rfind(',')), ", predicted");
  EXPECT_EQ(test::first_difference(memory::snapshot_of(log, log.devices.at(0)).events, p.snapshot.events), "");

  const auto faulty = [] { return [] { matmul(zeros({2, 3}), zeros({2, 3})); }; };
  EXPECT_THROW(memory::predict(Device::cpu(), faulty, {.recording = path}), ShapeError);
  EXPECT_TRUE(memory::read_log(path).complete);
  EXPECT_EQ(memory::recording_path(), "");
  EXPECT_THROWS_SAYING(predict({.recording = dir / "no/folder"}), FileError, "No such file or directory");
  EXPECT_THROW(predict({.recording = "/dev/full"}), FileError);
  EXPECT_THROWS_SAYING(
      memory::largest(Device::cpu(), MiB, 1, 2, [](std::int64_t n) { return Training(n); }, {.recording = path}),
      ValueError, "largest: a recording is of one prediction");
}

TEST(Predict, SeesTheModesAroundIt) {
  const auto lowered = static_cast<std::size_t>(memory::Role::autocast_copy);
  EXPECT_EQ(predict().snapshot.statistics.by_role[lowered].peak, 0u);
  const Autocast autocast(DType::bf16);
  EXPECT_GT(predict().snapshot.statistics.by_role[lowered].peak, 0u);
}

TEST(Predict, IsForAnyNumberOfThreads) {
#ifdef BYTETAPE_OPENMP
  const int many = 7, some = 3;
#else
  const int many = 1, some = 1;
#endif
  const int here = num_threads();
  EXPECT_EQ(predict({.threads = 7}).threads, many);
  EXPECT_EQ(num_threads(), here);
  EXPECT_EQ(test::with_threads(3, [] { return predict().threads; }), some);
}

TEST(Predict, RunsOnSeveralThreadsAtOnce) {
  const Prediction alone = predict({.threads = 2});
  std::vector<Prediction> all(4);
  {
    std::vector<std::jthread> threads;
    for (Prediction& p : all) threads.emplace_back([&p] { p = predict({.threads = 2}); });
  }
  for (const Prediction& p : all) EXPECT_EQ(test::first_difference(p.snapshot.events, alone.snapshot.events), "");
}

TEST(Predict, LeavesWhatIsKeptOutsideUsable) {
  Tensor kept;
  memory::predict(Device::cpu(), [&] {
    kept = zeros(1000);
    return [] {};
  });
  EXPECT_EQ(kept.device(), Device::meta());
  predict();
  kept += 1;
  kept = {};
  predict();
}

TEST(Predict, CanBePartOfAPrediction) {
  std::size_t inner = 0;
  const auto program = [&] {
    inner = predict().peak_reserved();
    return Training();
  };
  const Prediction outer = memory::predict(Device::cpu(), program);
  EXPECT_EQ(inner, predict().peak_reserved());
  EXPECT_EQ(test::first_difference(outer.snapshot.events, predict().snapshot.events), "");
}

TEST(Predict, DrawsAsTheProgramWould) {
  manual_seed(3);
  std::vector<float> predicted;
  memory::predict(Device::cpu(), [&] {
    predicted = rand(3, DType::f32, Device::cpu()).to_vector<float>();
    return [] {};
  });
  EXPECT_EQ(predicted, rand(3).to_vector<float>());
}

TEST(Predict, CountsTheSetupToNoStep) {
  const Prediction p = memory::predict(Device::cpu(), [] { return [kept = zeros(5000)] { zeros(100); }; });
  const memory::PredictedStep& first = p.steps.at(0);
  const auto allocated = [&](std::size_t begin, std::size_t end) {
    std::vector<std::size_t> bytes;
    for (std::size_t i = begin; i < end; ++i)
      if (p.snapshot.events[i].kind == memory::EventKind::alloc) bytes.push_back(p.snapshot.events[i].requested);
    return bytes;
  };
  EXPECT_EQ(allocated(0, first.first_event), std::vector<std::size_t>{20000});
  EXPECT_EQ(allocated(first.first_event, first.end_event), std::vector<std::size_t>{400});
}

TEST(Predict, SettlesHoweverManyEventsAStepHas) {
  const auto busy = [] {
    return [] {
      for (int i = 0; i < 10'000; ++i) empty(100);
    };
  };
  const Prediction p = memory::predict(Device::cpu(), busy, {.min_steps = 4});
  EXPECT_GT(p.snapshot.events.size(), memory::Ledger::default_log_capacity);
  EXPECT_EQ(p.period, 1u);
}

TEST(Predict, HasNoOthersThatTheProgramTookNothingOf) {
  const auto looks_elsewhere = [] {
    memory::stats(Device::meta(Device::cuda(1)));
    return [] { zeros(100); };
  };
  EXPECT_TRUE(memory::predict(Device::cuda(), looks_elsewhere).others.empty());
  const auto goes_elsewhere = [] { return [] { zeros(100, DType::f32, Device::meta(Device::cuda(1))); }; };
  EXPECT_EQ(memory::predict(Device::cuda(), goes_elsewhere).others.size(), 1u);
}

TEST(Predict, IsNotSettledIfALaterStepDoesNotFit) {
  const auto grows_late = [] { return [taken = 0]() mutable { zeros(++taken < 6 ? 100 : 4 << 20); }; };
  const Prediction p = memory::predict(Device::cpu(), grows_late, {.limit = 8 * MiB, .min_steps = 8});
  EXPECT_EQ(p.steps.size(), 6u);
  EXPECT_FALSE(p.fits());
  EXPECT_EQ(p.period, 0u);
}

TEST(Predict, SaysWhereMemoryRunsOut) {
  const std::size_t whole = predict().peak_reserved();
  const Prediction fits = predict({.limit = whole});
  EXPECT_TRUE(fits.fits());
  EXPECT_EQ(fits.snapshot.limit, whole);

  const Prediction small = predict({.limit = predict().steps[0].allocated / 2});
  ASSERT_FALSE(small.fits());
  EXPECT_FALSE(small.is_settled());
  EXPECT_EQ(small.steps.size(), 1u);
  EXPECT_EQ(small.out_of_memory->shortage().device, Device::meta());
  const auto& events = small.snapshot.events;
  const auto ran_out = [](const memory::Event& e) { return e.kind == memory::EventKind::out_of_memory; };
  EXPECT_EQ(std::count_if(events.begin(), events.end(), ran_out), 1);
  EXPECT_GT(small.steps[0].allocated, 0u);

  const Prediction none = predict({.limit = 1000});
  EXPECT_FALSE(none.fits());
  EXPECT_TRUE(none.steps.empty()) << "the model does not fit";
}

TEST(Predict, RefusesWhatItCannotDo) {
  EXPECT_THROWS_SAYING(predict({.max_steps = 0}), ValueError, "predict: expected max_steps >= 1, got 0");
  EXPECT_THROWS_SAYING(predict({.threads = -1}), ValueError, "expected 1 to 1024, got -1");
  EXPECT_THROWS_SAYING(predict({.world_size = -2}), ValueError, "got rank 0 of -2");
  EXPECT_THROWS_SAYING(predict({.world_size = 2, .rank = -1}), ValueError, "got rank -1 of 2");
  EXPECT_THROWS_SAYING(memory::predict(Device{DeviceType::cpu, 3}, make_training), DeviceError, "there is one cpu");
  const auto faulty = [] { return [] { matmul(zeros({2, 3}), zeros({2, 3})); }; };
  EXPECT_THROWS_SAYING(memory::predict(Device::cpu(), faulty), ShapeError, "matmul");
  EXPECT_EQ(default_device(), Device::cpu());
  const auto looks = [] { return [] { zeros(1).item<float>(); }; };
  EXPECT_THROWS_SAYING(memory::predict(Device::cpu(), looks), DeviceError, "holds no data");
}

TEST(Predict, PassesOnWhatRunsOutElsewhere) {
  const auto greedy = [] { return [] { zeros({1 << 20, 1 << 20, 1 << 10}, DType::u8, Device::cpu()); }; };
  EXPECT_THROW(memory::predict(Device::cuda(), greedy), OutOfMemory);
}

TEST(Predict, OfAGpuNeedsNoneAndShowsTheHostsMemory) {
  std::vector<std::uint8_t> pixels(100 * 64);
  std::vector<std::int64_t> labels(100);
  const data::TensorDataset dataset(from_blob(pixels.data(), {100, 8, 8}, DType::u8),
                                    from_blob(labels.data(), 100, DType::i64), data::Normalize{});
  struct Loop {
    explicit Loop(const data::Dataset& dataset) : loader(dataset, {.batch_size = 25}) {}
    data::DataLoader loader;
    nn::Linear fc{64, 10};
    void operator()() {
      for (const auto& [x, y] : loader) cross_entropy(fc(flatten(x, 1)), y).backward();
    }
  };
  const Prediction p = memory::predict(Device::cuda(3), [&] { return Loop(dataset); });
  EXPECT_EQ(p.device, Device::cuda(3));
  EXPECT_EQ(p.snapshot.name, "meta:cuda:3");
  EXPECT_TRUE(p.is_settled());
  EXPECT_GT(p.snapshot.statistics.to_device.count, 0u);
  ASSERT_FALSE(p.others.empty());
  EXPECT_EQ(p.others[0].name, "pinned:meta:cuda:3");
  EXPECT_NE(memory::summarize(p).find("also on pinned:meta:cuda:3: peak "), std::string::npos);
}

TEST(Predict, TakesTheModeOfTheDevice) {
  const auto direct = memory::Allocator::Mode::direct;
  const test::StandIn device({}, Device::cuda(), std::make_unique<memory::HostUpstream>(), direct);
  const Prediction p = memory::predict(Device::cuda(), make_training);
  EXPECT_EQ(p.peak_reserved(), p.peak_allocated());
}

/// The page of a prediction of `steps` up to the table of modules. Each has 4 KiB of parameters, and saves the rest.
std::string page_of(const std::vector<std::size_t>& kib, std::size_t period, int threads = 2,
                    Device device = Device::cpu()) {
  Prediction p;
  p.device = device;
  p.threads = threads;
  p.period = period;
  p.snapshot.limit = std::numeric_limits<std::size_t>::max();
  for (const std::size_t n : kib) {
    memory::PredictedStep step{.allocated = n << 10, .reserved = 2 * MiB};
    step.by_role[static_cast<std::size_t>(memory::Role::parameter)] = 4 << 10;
    step.by_role[static_cast<std::size_t>(memory::Role::saved)] = (n - 4) << 10;
    p.steps.push_back(step);
  }
  if (!p.steps.empty()) {
    p.steps.front().by_role[static_cast<std::size_t>(memory::Role::input)] = 512;  // the first step's alone
    p.steps.back().by_role[static_cast<std::size_t>(memory::Role::gradient)] = 1024;
  }
  const std::string page = memory::summarize(p);
  return "\n" + page.substr(0, page.find("\nmemory on"));
}

TEST(Predict, ItsPageComparesTheFirstStepWithTheHighestOfThoseThatRepeat) {
  EXPECT_EQ(page_of({20, 12, 8, 8}, 1), R"(
predicted for cpu on 2 threads: all steps from step 3 on are alike

at a step's peak                 step 1          step 4
  parameter                    4.00 KiB        4.00 KiB  ███████████
  gradient                          0 B        1.00 KiB  ██▊
  input                           512 B             0 B
  saved for backward           16.0 KiB        4.00 KiB  ███████████
  allocated                    20.0 KiB        8.00 KiB
  reserved                     2.00 MiB        2.00 MiB
)");
  EXPECT_EQ(page_of({20, 12, 16, 8, 16, 8}, 2), R"(
predicted for cpu on 2 threads: from step 3 on, steps repeat with a period of 2

at a step's peak                 step 1          step 5
  parameter                    4.00 KiB        4.00 KiB  █████▌
  input                           512 B             0 B
  saved for backward           16.0 KiB        12.0 KiB  ████████████████▌
  allocated                    20.0 KiB        16.0 KiB
  reserved                     2.00 MiB        2.00 MiB
)");
  EXPECT_EQ(page_of({20}, 0, 1), R"(
predicted for cpu on 1 thread: 1 step, none like an earlier one

at a step's peak                                 step 1
  parameter                                    4.00 KiB  ████▍
  gradient                                     1.00 KiB  █▏
  input                                           512 B  ▌
  saved for backward                           16.0 KiB  █████████████████▋
  allocated                                    20.0 KiB
  reserved                                     2.00 MiB
)");
  EXPECT_EQ(page_of({20, 24}, 0, 1, Device::cuda()), R"(
predicted for cuda: 2 steps, none like an earlier one

at a step's peak                 step 1          step 2
  parameter                    4.00 KiB        4.00 KiB  ███▋
  gradient                          0 B        1.00 KiB  ▉
  input                           512 B             0 B
  saved for backward           16.0 KiB        20.0 KiB  ██████████████████▍
  allocated                    20.0 KiB        24.0 KiB
  reserved                     2.00 MiB        2.00 MiB
)");
}

TEST(Predict, IsToldInWords) {
  if (memory::mode_from_environment() != memory::Allocator::Mode::caching)
    GTEST_SKIP() << "without a cache steps settle sooner";
  const std::string text = memory::summarize(predict({.threads = 1}));
  EXPECT_NE(text.find("predicted for cpu on 1 thread: all steps from step 3 on are alike\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\nat a step's peak                 step 1          step 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  optimizer state"), std::string::npos) << text;
  EXPECT_NE(text.find("\nmemory on meta: peak "), std::string::npos) << text;
  EXPECT_NE(memory::summarize(predict({.limit = 8 * MiB})).find(": fits into 8.00 MiB; all steps from step"),
            std::string::npos);
  EXPECT_NE(memory::summarize(predict({.limit = MiB / 4})).find(": step 1 does not fit into 256 KiB\n"),
            std::string::npos);
  EXPECT_NE(memory::summarize(predict({.limit = 1024})).find(": the setup before the first step does not fit"),
            std::string::npos);
  EXPECT_NE(memory::summarize(predict({.max_steps = 2})).find(": 2 steps, none like an earlier one\n"),
            std::string::npos);
}

TEST(Largest, IsTheOneBehindWhichNoneFits) {
  const auto training = [](std::int64_t n) { return Training(n); };
  for (const std::size_t limit : {4 * MiB, 23 * MiB, 300 * MiB}) {
    const memory::Largest found = memory::largest(Device::cpu(), limit, 1, 1'000'000, training);
    ASSERT_TRUE(found.n);
    EXPECT_TRUE(found.prediction.fits());
    EXPECT_LE(found.prediction.peak_reserved(), limit);
    const auto fits = [&](std::int64_t n) {
      return memory::predict(Device::cpu(), [&] { return training(n); }, {.limit = limit}).fits();
    };
    EXPECT_TRUE(fits(*found.n));
    EXPECT_FALSE(fits(*found.n + 1)) << *found.n;
  }
}

TEST(Largest, StaysInItsRange) {
  const auto training = [](std::int64_t n) { return Training(n); };
  for (const std::int64_t high : {1, 2, 7, 64}) {
    EXPECT_EQ(memory::largest(Device::cpu(), 300 * MiB, 1, high, training).n, high);
    EXPECT_EQ(memory::largest(Device::cpu(), 300 * MiB, high, high, training).n, high);
  }
  const memory::Largest none = memory::largest(Device::cpu(), 4 * MiB, 100'000, 200'000, training);
  EXPECT_FALSE(none.n);
  EXPECT_FALSE(none.prediction.fits());
}

TEST(Largest, TriesFewAndNoneOfThemTwice) {
  std::vector<std::int64_t> tried;
  const auto blocks = [&](std::int64_t n) {
    tried.push_back(n);
    return [n] { zeros(n * 1000); };
  };
  const memory::Largest found = memory::largest(Device::cpu(), 20 * MiB, 1, 1'000'000'000, blocks);
  EXPECT_EQ(found.n, static_cast<std::int64_t>(20 * MiB / 4000));
  EXPECT_LE(tried.size(), 28u);
  std::sort(tried.begin(), tried.end());
  EXPECT_EQ(std::unique(tried.begin(), tried.end()), tried.end());
}

TEST(Largest, LooksBeyondWhatOnlyFragmentationStops) {
  std::vector<std::int64_t> tried;
  const auto predict_for = [&](std::int64_t n) {
    tried.push_back(n);
    memory::Prediction p;
    const bool fragmented = n > 15 && n < 50;
    if (n <= 70 && !fragmented) return p;
    memory::Shortage s;
    s.requested = MiB;
    s.statistics.reserved.current = fragmented ? 4 * MiB : 0;
    p.out_of_memory.emplace(s);
    return p;
  };
  EXPECT_EQ(memory::detail::largest(1, 1'000'000, predict_for).n, 70);
  EXPECT_LT(*std::max_element(tried.begin(), tried.end()), 200) << "what is truly too large ends it";
  EXPECT_EQ(memory::detail::largest(1, 40, predict_for).n, 15);
}

TEST(Largest, RefusesRangesWithoutNumbersAndTwoLimits) {
  const auto training = [](std::int64_t n) { return Training(n); };
  EXPECT_THROWS_SAYING(memory::largest(Device::cpu(), MiB, 0, 5, training), ValueError,
                       "largest: expected 1 <= low <= high, got 0 and 5");
  EXPECT_THROWS_SAYING(memory::largest(Device::cpu(), MiB, 6, 5, training), ValueError, "got 6 and 5");
  EXPECT_THROWS_SAYING(memory::largest(Device::cpu(), MiB, 1, 5, training, {.limit = 2 * MiB}), ValueError,
                       "the limit is given twice");
}

}  // namespace
}  // namespace bytetape
