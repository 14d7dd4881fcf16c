#include "bytetape/optim/lr_scheduler.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "bytetape/core/factories.h"
#include "bytetape/optim/adam.h"
#include "bytetape/optim/sgd.h"
#include "tests/optim/golden.h"

namespace bytetape::optim::lr_scheduler {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Plateau = ReduceLROnPlateauOptions;

/// A schedule, whose step is told the epoch.
struct Schedule {
  std::function<void(std::int64_t)> step;
  std::function<StateDict()> state_dict;
  std::function<void(const StateDict&)> load_state_dict;
};
Schedule of(const std::shared_ptr<LRScheduler>& s) {
  return {[=](std::int64_t) { s->step(); }, [=] { return s->state_dict(); },
          [=](const StateDict& state) { s->load_state_dict(state); }};
}
template <class S, class... Args>
Schedule make(Optimizer& o, const Args&... args) {
  return of(std::make_shared<S>(o, args...));
}
double metric(std::int64_t epoch) {
  return 1 / static_cast<double>(1 + epoch / 7) + 0.01 * static_cast<double>(epoch % 3);
}
Schedule plateau(Optimizer& o, const Plateau& options) {
  const auto s = std::make_shared<ReduceLROnPlateau>(o, options);
  return {[=](std::int64_t epoch) { s->step(metric(epoch)); }, [=] { return s->state_dict(); },
          [=](const StateDict& state) { s->load_state_dict(state); }};
}

struct Configuration {
  const char* name;
  std::function<Schedule(Optimizer&)> make;
};
/// Those of tests/golden/lr_scheduler.py.
const Configuration configurations[] = {
    {"step", [](Optimizer& o) { return make<StepLR>(o, StepLROptions{.step_size = 7, .gamma = 0.5}); }},
    {"step_defaults", [](Optimizer& o) { return make<StepLR>(o, StepLROptions{.step_size = 30}); }},
    {"cosine", [](Optimizer& o) { return make<CosineAnnealingLR>(o, CosineAnnealingLROptions{.T_max = 100}); }},
    {"cosine_waves",
     [](Optimizer& o) { return make<CosineAnnealingLR>(o, CosineAnnealingLROptions{.T_max = 15, .eta_min = 0.001}); }},
    {"linear_defaults", [](Optimizer& o) { return make<LinearLR>(o); }},
    {"linear",
     [](Optimizer& o) {
       return make<LinearLR>(o, LinearLROptions{.start_factor = 0.9, .end_factor = 0.05, .total_iters = 60});
     }},
    {"lambda",
     [](Optimizer& o) { return make<LambdaLR>(o, [](std::int64_t epoch) { return std::pow(0.95, epoch); }); }},
    {"lambdas",
     [](Optimizer& o) {
       return make<LambdaLR>(
           o, std::vector<LambdaLR::Lambda>{[](std::int64_t epoch) { return 1 / static_cast<double>(1 + epoch); },
                                            [](std::int64_t epoch) { return std::exp(-0.1 * epoch); }});
     }},
    {"one_cycle",
     [](Optimizer& o) { return make<OneCycleLR>(o, OneCycleLROptions{.max_lr = 0.3, .total_steps = 100}); }},
    {"one_cycle_options",
     [](Optimizer& o) {
       return make<OneCycleLR>(o, OneCycleLROptions{.max_lr = {0.3, 0.07},
                                                    .epochs = 20,
                                                    .steps_per_epoch = 5,
                                                    .pct_start = 0.42,
                                                    .anneal_strategy = AnnealStrategy::linear,
                                                    .base_momentum = 0.8,
                                                    .max_momentum = 0.9,
                                                    .div_factor = 10,
                                                    .final_div_factor = 50});
     }},
    {"one_cycle_three_phase",
     [](Optimizer& o) {
       return make<OneCycleLR>(o, OneCycleLROptions{.max_lr = 0.3, .total_steps = 111, .three_phase = true});
     }},
    {"chained",
     [](Optimizer& o) {
       return of(std::make_shared<ChainedScheduler>(SchedulerList::Schedulers{
           std::make_shared<LinearLR>(o, LinearLROptions{.start_factor = 0.25, .total_iters = 20}),
           std::make_shared<StepLR>(o, StepLROptions{.step_size = 9, .gamma = 0.8})}));
     }},
    {"chained_cosine",
     [](Optimizer& o) {
       return of(std::make_shared<ChainedScheduler>(
           SchedulerList::Schedulers{std::make_shared<CosineAnnealingLR>(o, CosineAnnealingLROptions{.T_max = 101}),
                                     std::make_shared<StepLR>(o, StepLROptions{.step_size = 50})}));
     }},
    {"sequential",
     [](Optimizer& o) {
       const SchedulerList::Schedulers parts{
           std::make_shared<LinearLR>(o, LinearLROptions{.start_factor = 0.1, .total_iters = 10}),
           std::make_shared<StepLR>(o, StepLROptions{.step_size = 8, .gamma = 0.7}),
           std::make_shared<CosineAnnealingLR>(o, CosineAnnealingLROptions{.T_max = 30, .eta_min = 1e-4})};
       return of(std::make_shared<SequentialLR>(o, parts, std::vector<std::int64_t>{10, 45}));
     }},
    {"plateau",
     [](Optimizer& o) {
       return plateau(o, {.factor = 0.7, .patience = 2, .cooldown = 1, .min_lr = {0.002, 1e-4}});
     }},
    {"plateau_max",
     [](Optimizer& o) {
       return plateau(o, {.mode = Plateau::Mode::max,
                          .factor = 0.5,
                          .patience = 4,
                          .threshold = 0.02,
                          .threshold_mode = Plateau::ThresholdMode::abs,
                          .eps = 1e-3});
     }},
};

/// The table's optimizer.
std::unique_ptr<Optimizer> make_optimizer(const std::string& configuration) {
  std::vector<ParamGroup> groups;
  for (const double lr : {0.1, 0.02}) groups.push_back({.params = {ones({1}).set_requires_grad()}, .lr = lr});
  if (configuration == "cosine" || configuration == "one_cycle_three_phase") return std::make_unique<Adam>(groups);
  return std::make_unique<SGD>(groups, SGDOptions{.momentum = 0.9});
}

double value(const Optimizer& o, const std::string& name) {
  const ParamGroup &first = o.param_groups()[0], &second = o.param_groups()[1];
  if (name == "lr0") return *first.lr;
  if (name == "lr1") return *second.lr;
  return first.betas ? (*first.betas)[0] : *first.momentum;
}

class EverySchedule : public testing::TestWithParam<Configuration> {};
INSTANTIATE_TEST_SUITE_P(, EverySchedule, testing::ValuesIn(configurations),
                         [](const auto& i) { return i.param.name; });

TEST_P(EverySchedule, EqualsPyTorch) {
  const auto optimizer = make_optimizer(GetParam().name);
  const Schedule schedule = GetParam().make(*optimizer);
  const auto table = test::golden_lines("lr_scheduler.csv", GetParam().name);
  ASSERT_GE(table.size(), 2u);
  const std::string name = GetParam().name;
  const bool has_ended = name == "one_cycle" || name == "one_cycle_options";
  const int last = has_ended ? 99 : 100;  // behind its last step PyTorch's goes on past the end, below 0
  for (int epoch = 0; epoch <= last; ++epoch) {
    for (const auto& cells : table) {
      ASSERT_EQ(cells.size(), 102u);
      const double wanted = std::stod(cells[1 + epoch]);
      ASSERT_NEAR(value(*optimizer, cells[0]), wanted, 1e-12 * std::abs(wanted)) << cells[0] << ", epoch " << epoch;
    }
    if (epoch < 100) schedule.step(epoch);
  }
}

TEST_P(EverySchedule, GoesOnFromItsStateBitForBit) {
  for (int stop = 1; stop < 100; stop += 2) {  // some of them in a cooldown or between two restarts
    const auto whole = make_optimizer(GetParam().name), first = make_optimizer(GetParam().name),
               second = make_optimizer(GetParam().name);
    const Schedule of_whole = GetParam().make(*whole), of_first = GetParam().make(*first),
                   of_second = GetParam().make(*second);
    for (int epoch = 0; epoch < stop; ++epoch) of_whole.step(epoch), of_first.step(epoch);
    second->load_state_dict(first->state_dict());
    of_second.load_state_dict(of_first.state_dict());
    EXPECT_EQ(of_first.state_dict().numbers, of_second.state_dict().numbers) << stop;
    for (int epoch = stop; epoch < 100; ++epoch) {
      of_whole.step(epoch), of_second.step(epoch);
      for (const char* name : {"lr0", "lr1", "momentum0"})
        ASSERT_EQ(value(*whole, name), value(*second, name)) << stop << " " << epoch;
    }
    EXPECT_EQ(of_whole.state_dict().numbers, of_second.state_dict().numbers);
  }
}

TEST_P(EverySchedule, RefusesAStateOfOthers) {
  const auto optimizer = make_optimizer(GetParam().name);
  const Schedule schedule = GetParam().make(*optimizer);
  const StateDict before = schedule.state_dict();
  StateDict state = before;
  state.numbers.erase("last_epoch");
  state.numbers["gamma"] = 0.5;
  EXPECT_THAT([&] { schedule.load_state_dict(state); },
              ThrowsMessage<ValueError>(
                  AllOf(HasSubstr("missing number 'last_epoch'"), HasSubstr("unexpected number 'gamma'"))));
  EXPECT_EQ(schedule.state_dict().numbers, before.numbers);
}

TEST_P(EverySchedule, IsLeftAloneByAStateOfOtherKinds) {
  const auto optimizer = make_optimizer(GetParam().name);
  const Schedule schedule = GetParam().make(*optimizer);
  const StateDict before = schedule.state_dict();
  for (const auto& [name, number] : before.numbers) {
    if (!name.ends_with("last_epoch")) continue;  // of a list and of each of its parts
    StateDict state = before;
    for (auto& [other, value] : state.numbers)
      if (std::holds_alternative<std::int64_t>(value)) value = std::int64_t{7};
    state.numbers[name] = 0.5;
    EXPECT_THAT([&] { schedule.load_state_dict(state); },
                ThrowsMessage<ValueError>(HasSubstr("'" + name + "' must be an integer")));
    EXPECT_EQ(schedule.state_dict().numbers, before.numbers) << name;
  }
}

TEST_P(EverySchedule, IsLeftAloneByValuesThatCannotBe) {
  const auto optimizer = make_optimizer(GetParam().name);
  const Schedule schedule = GetParam().make(*optimizer);
  const StateDict before = schedule.state_dict();
  int spoiled = 0;
  const auto refuses = [&](const std::string& name, const StateDict::Number& value) {
    StateDict state = before;
    state.numbers[name] = value;
    ++spoiled;
    EXPECT_THAT([&] { schedule.load_state_dict(state); },
                ThrowsMessage<ValueError>(HasSubstr("'" + name + "' must be")));
    EXPECT_EQ(schedule.state_dict().numbers, before.numbers) << name;
  };
  for (const auto& [name, number] : before.numbers)
    if (name.ends_with("last_epoch")) {
      refuses(name, std::int64_t{-1000});
      refuses(name, std::int64_t{1} << 53);
    } else if (name.find("last_lr.") != std::string::npos) {
      refuses(name, std::numeric_limits<double>::quiet_NaN());
    }
  EXPECT_GE(spoiled, 3);
}

TEST(LRScheduler, TellsTheRatesThatItSet) {
  const auto optimizer = make_optimizer("");
  StepLR schedule(*optimizer, {.step_size = 1, .gamma = 0.5});
  EXPECT_THAT(schedule.get_last_lr(), testing::ElementsAre(0.1, 0.02));
  EXPECT_EQ(schedule.last_epoch(), 0);
  schedule.step();
  EXPECT_THAT(schedule.get_last_lr(), testing::ElementsAre(0.05, 0.01));
  EXPECT_EQ(schedule.last_epoch(), 1);
  EXPECT_EQ(optimizer->param_groups()[0].initial_lr, 0.1);
}

TEST(LRScheduler, SavesTheRatesThatItSet) {
  const auto optimizer = make_optimizer("");
  StepLR schedule(*optimizer, {.step_size = 1, .gamma = 0.5});
  ReduceLROnPlateau plateau(*optimizer, {});
  schedule.step();
  plateau.step(1);
  optimizer->param_groups()[0].lr = 7;
  for (const StateDict& state : {schedule.state_dict(), plateau.state_dict()}) {
    EXPECT_EQ(state.number("last_lr.0"), 0.05);
    EXPECT_EQ(state.number("last_lr.1"), 0.01);
  }
}

// What PyTorch has only where the parts are no chains: there a chain cannot begin anew.
TEST(SequentialLR, TakesChainsAsParts) {
  const auto optimizer = make_optimizer("");
  Optimizer& o = *optimizer;
  const SchedulerList::Schedulers chained{std::make_shared<LinearLR>(o, LinearLROptions{.start_factor = 0.5}),
                                          std::make_shared<StepLR>(o, StepLROptions{.step_size = 2, .gamma = 0.5})};
  SequentialLR schedule(o,
                        {std::make_shared<StepLR>(o, StepLROptions{.step_size = 1, .gamma = 0.1}),
                         std::make_shared<ChainedScheduler>(chained)},
                        {3});
  std::vector<double> rates;
  for (int epoch = 0; epoch < 7; ++epoch) rates.push_back(*o.param_groups()[0].lr), schedule.step();
  const double expected[] = {0.1, 0.01, 0.001, 0.05, 0.06, 0.07 / 2, 0.08 / 2};
  for (int epoch = 0; epoch < 7; ++epoch) EXPECT_NEAR(rates[epoch], expected[epoch], 1e-15) << epoch;
}

TEST(SequentialLR, BeginsWithTheScheduleOfMilestone0) {
  const auto optimizer = make_optimizer("");
  SequentialLR schedule(*optimizer,
                        {std::make_shared<LinearLR>(*optimizer, LinearLROptions{.start_factor = 0.25}),
                         std::make_shared<StepLR>(*optimizer, StepLROptions{.step_size = 1, .gamma = 0.5})},
                        {0});
  for (const double expected : {0.1, 0.05, 0.025}) {
    EXPECT_NEAR(*optimizer->param_groups()[0].lr, expected, 1e-15);
    schedule.step();
  }
}

TEST(LinearLR, EndsAtZeroItself) {
  for (const double start : {1.0 / 3, 0.1, 0.9, 0.01})
    for (int total = 1; total <= 50; ++total) {
      const auto optimizer = make_optimizer("");
      LinearLR schedule(*optimizer, {.start_factor = start, .end_factor = 0, .total_iters = total});
      for (int i = 0; i < total + 2; ++i) {
        ASSERT_EQ(schedule.get_last_lr()[0] > 0, i < total) << start << ", " << total << " at " << i;
        schedule.step();
      }
      ASSERT_THAT(schedule.get_last_lr(), testing::ElementsAre(0.0, 0.0)) << start << ", " << total;
    }
}

TEST(OneCycleLR, StaysAtItsLastRateAStepBehindTheCycle) {
  const auto optimizer = make_optimizer("");
  OneCycleLR schedule(
      *optimizer, {.max_lr = 1, .total_steps = 10, .anneal_strategy = AnnealStrategy::linear, .cycle_momentum = false});
  for (int i = 0; i < 9; ++i) schedule.step();
  const std::vector<double> last = schedule.get_last_lr();
  schedule.step();
  EXPECT_EQ(schedule.get_last_lr(), last);
}

TEST(OneCycleLR, RefusesStepsAndMomentaThatCannotBe) {
  const auto optimizer = make_optimizer("");
  const auto made = [&](const OneCycleLROptions& o) { return [&, o] { OneCycleLR(*optimizer, o); }; };
  EXPECT_THAT(made({.max_lr = 1, .epochs = -2, .steps_per_epoch = -5}),
              ThrowsMessage<ValueError>(HasSubstr("OneCycleLR needs 1 to 2^53 steps, got -2 times -5")));
  EXPECT_THAT(made({.max_lr = 1, .epochs = std::int64_t{1} << 40, .steps_per_epoch = std::int64_t{1} << 40}),
              ThrowsMessage<ValueError>(HasSubstr("steps")));
  EXPECT_THAT(made({.max_lr = 1, .total_steps = 10, .max_momentum = 1.5}),
              ThrowsMessage<ValueError>(HasSubstr("max_momentum must be from 0 to below 1, got 1.5")));
}

TEST(OneCycleLR, EndsWithTheCycle) {
  const auto optimizer = make_optimizer("");
  OneCycleLR schedule(*optimizer, {.max_lr = 1, .total_steps = 10, .pct_start = 0.1});  // whose way up has no length
  EXPECT_EQ(optimizer->lr(), 1);
  for (int i = 0; i < 10; ++i) schedule.step();
  const double last = optimizer->lr();
  EXPECT_THAT([&] { schedule.step(); }, ThrowsMessage<ValueError>(HasSubstr("expected at most 10 steps")));
  EXPECT_EQ(optimizer->lr(), last);
  EXPECT_EQ(schedule.last_epoch(), 10);
}

// Cycling momentum as well: the steps themselves.
TEST(OneCycleLR, MovesParametersAsPyTorch) {
  const auto with = [](auto&& make_it) {
    return [=](const std::vector<Tensor>& x) -> golden::Training {
      golden::Training training{.optimizer = make_it(x)};
      const auto schedule =
          std::make_shared<OneCycleLR>(*training.optimizer, OneCycleLROptions{.max_lr = 0.05, .total_steps = 100});
      training.after_step = [schedule] { schedule->step(); };
      return training;
    };
  };
  golden::run_both("sgd_one_cycle", with([](const std::vector<Tensor>& x) {
                     return std::make_unique<SGD>(x, SGDOptions{.lr = 0.01, .momentum = 0.9});
                   }));
  golden::run_both("adam_one_cycle", with([](const std::vector<Tensor>& x) {
                     return std::make_unique<Adam>(x, AdamOptions{.lr = 0.01});
                   }));
}

TEST(LRSchedulers, NameTheOptionThatIsOutOfRange) {
  const auto optimizer = make_optimizer("");
  Optimizer &o = *optimizer, &other = *make_optimizer("").release();
  const std::unique_ptr<Optimizer> owned(&other);
  EXPECT_THAT([&] { StepLR(o, {}); }, ThrowsMessage<ValueError>(HasSubstr("step_size of at least 1, got 0")));
  EXPECT_THAT([&] { LinearLR(o, {.start_factor = 0}); }, ThrowsMessage<ValueError>(HasSubstr("start_factor")));
  EXPECT_THAT([&] { LinearLR(o, {.end_factor = 1.5}); }, ThrowsMessage<ValueError>(HasSubstr("end_factor")));
  EXPECT_THAT([&] { CosineAnnealingLR(o, {}); }, ThrowsMessage<ValueError>(HasSubstr("T_max")));
  EXPECT_THAT([&] { LambdaLR(o, std::vector<LambdaLR::Lambda>(3)); },
              ThrowsMessage<ValueError>(HasSubstr("LambdaLR needs 2 functions, one for each parameter group, got 3")));
  EXPECT_THAT([&] { LambdaLR(o, LambdaLR::Lambda()); }, ThrowsMessage<ValueError>(HasSubstr("not empty")));
  EXPECT_THAT([&] { OneCycleLR(o, {.max_lr = 1}); },
              ThrowsMessage<ValueError>(HasSubstr("needs total_steps, or epochs")));
  EXPECT_THAT(
      [&] {
        OneCycleLR(o, {.max_lr = {1, 2, 3}, .total_steps = 5});
      },
      ThrowsMessage<ValueError>(HasSubstr("expected one max_lr or 2, one for each parameter group, got 3")));
  EXPECT_THAT([&] { OneCycleLR(o, {.total_steps = 5}); },
              ThrowsMessage<ValueError>(HasSubstr("max_lr must be positive")));
  EXPECT_THAT([&] { ReduceLROnPlateau(o, {.factor = 1}); }, ThrowsMessage<ValueError>(HasSubstr("factor")));
  EXPECT_THAT([&] { ReduceLROnPlateau(o, {.factor = 0}); }, ThrowsMessage<ValueError>(HasSubstr("factor")));
  EXPECT_THAT([&] { ReduceLROnPlateau(o, {.patience = -1}); }, ThrowsMessage<ValueError>(HasSubstr("got -1 and 0")));
  EXPECT_THAT([&] { ReduceLROnPlateau(o, {.cooldown = -2}); }, ThrowsMessage<ValueError>(HasSubstr("got 10 and -2")));
  EXPECT_THAT([&] { ReduceLROnPlateau(o, {.threshold = -0.5}); },
              ThrowsMessage<ValueError>(HasSubstr("threshold and eps must not be negative, got -0.5")));
  EXPECT_THAT([&] { ReduceLROnPlateau(o, {.eps = -0.25}); }, ThrowsMessage<ValueError>(HasSubstr("and -0.25")));
  EXPECT_THAT([&] { ChainedScheduler(SchedulerList::Schedulers{}); },
              ThrowsMessage<ValueError>(HasSubstr("at least one")));
  const auto a = std::make_shared<StepLR>(o, StepLROptions{.step_size = 1}),
             b = std::make_shared<StepLR>(other, StepLROptions{.step_size = 1});
  EXPECT_THAT(
      [&] {
        ChainedScheduler({a, b});
      },
      ThrowsMessage<ValueError>(HasSubstr("schedule 1 of the list belongs to another")));
  EXPECT_THAT(
      [&] {
        ChainedScheduler({a, nullptr});
      },
      ThrowsMessage<ValueError>(HasSubstr("schedule 1 of the list is null")));
  EXPECT_THAT([&] { SequentialLR(o, {}, {}); },
              ThrowsMessage<ValueError>(HasSubstr("expected at least one schedule, got none")));
  EXPECT_THAT([&] { SequentialLR(o, {a}, {3}); },
              ThrowsMessage<ValueError>(HasSubstr("one milestone fewer than its 1")));
  EXPECT_THAT(
      [&] {
        SequentialLR(o, {a, a, a}, {5, 3});
      },
      ThrowsMessage<ValueError>(HasSubstr("in ascending order, from 0 on")));
  EXPECT_THAT(
      [&] {
        SequentialLR(o, {a, a, a}, {-1, 3});
      },
      ThrowsMessage<ValueError>(HasSubstr("in ascending order, from 0 on")));
}

}  // namespace
}  // namespace bytetape::optim::lr_scheduler
