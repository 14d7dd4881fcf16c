// The choices of nn::fit(), compared with every other choice on small models.
#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/nn/fit.h"
#include "bytetape/nn/step_cost.h"
#include "tests/support/expect.h"

namespace bytetape::nn {
namespace {

using Paths = std::vector<std::string>;

/// Blocks of any length and width in groups, or by themselves.
Sequential random_model(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto block = [&] {
    Sequential b(Linear(32, 32 << below(3)));
    const std::int64_t width = static_cast<Linear&>(b[0]).weight.size(0);
    for (int i = 0, n = 1 + below(4); i < n; ++i) b.push_back(Tanh());
    b.push_back(Linear(width, 32));
    return std::make_shared<Sequential>(std::move(b));
  };
  Sequential net;
  for (int i = 0; i < 3; ++i) {
    if (below(2) == 0) {
      net.push_back(block());
      continue;
    }
    auto group = std::make_shared<Sequential>();
    for (int j = 0; j < 2; ++j) group->push_back(block());
    net.push_back(group);
  }
  net.push_back(Linear(32, 4));
  return net;
}

struct Training {
  Sequential net;
  MemoryOptions memory_options;
  Training(unsigned seed, const MemoryOptions& memory_options)
      : net(random_model(seed)), memory_options(memory_options) {
    memory_options.apply(net);
  }
  void operator()() {
    const memory::Step step;
    net.zero_grad();
    sum(net(randn({1024, 32}))).backward();
  }
};

class Choices {
 public:
  Choices(unsigned seed, std::size_t limit) : seed_(seed), limit_(limit) {
    for (const memory::WorkCount& row : predict({}, memory::PredictOptions{}.limit).work)
      if (row.phase == memory::Phase::forward)
        costs_[memory::plain_path(row.module)] += step_cost({row}, DeviceType::cpu);
    Sequential net = random_model(seed);
    for (const auto& [path, module] : net.named_modules())
      if (path.find('.') == path.rfind('.') && dynamic_cast<Sequential*>(module) && !path.empty()) all_.push_back(path);
  }

  bool fits(const Paths& modules) const { return predict(modules, limit_).fits(); }
  /// The part of forward that runs again, in estimated time. Paths may have classes.
  double part(const Paths& modules) const {
    double part = 0, all = 0;
    for (const auto& [path, seconds] : costs_) {
      all += seconds;
      const auto has = [&, &of = path](const std::string& m) {
        return memory::is_within(of, memory::plain_path(memory::intern(m)));
      };
      if (std::any_of(modules.begin(), modules.end(), has)) part += seconds;
    }
    return part / all;
  }
  /// The least part of all sets of blocks and groups that fit; 2 where none does.
  double least_part() const {
    std::vector<std::pair<double, Paths>> sets;
    for (unsigned bits = 0; bits < 1u << all_.size(); ++bits) {
      Paths set;
      for (std::size_t i = 0; i < all_.size(); ++i)
        if (bits >> i & 1) set.push_back(all_[i]);
      const bool nested = std::any_of(set.begin(), set.end(), [&](const auto& a) {
        return std::any_of(set.begin(), set.end(), [&](const auto& b) { return a != b && memory::is_within(a, b); });
      });
      if (!nested) sets.emplace_back(part(set), set);
    }
    std::sort(sets.begin(), sets.end());
    for (const auto& [part, set] : sets)
      if (fits(set)) return part;
    return 2;
  }

 private:
  memory::Prediction predict(const Paths& modules, std::size_t limit) const {
    return memory::predict(Device::cpu(), [&] { return Training(seed_, {.checkpointed = modules}); }, {.limit = limit});
  }
  const unsigned seed_;
  const std::size_t limit_;
  std::map<std::string, double> costs_;
  Paths all_;
};

TEST(FitChoice, RunsLeastAgain) {
  int tight = 0, at_once = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::size_t need = memory::predict(Device::cpu(), [&] { return Training(seed, {}); }).peak_reserved();
    for (const int percent : {85, 70, 60}) {
      const std::size_t limit = need * static_cast<std::size_t>(percent) / 100;
      const Fit f = fit(Device::cpu(), limit,
                        [&](const MemoryOptions& memory_options) { return Training(seed, memory_options); });
      const Choices choices(seed, limit);
      const double least = choices.least_part();
      SCOPED_TRACE(f.text());
      const double part = choices.part(f.memory_options.checkpointed);
      EXPECT_LE(part, least + 1e-9) << "seed " << seed << ", " << percent << " %";
      tight += least > 0 && least < 2;
      const Fit first =
          fit(Device::cpu(), limit, [&](const MemoryOptions& memory_options) { return Training(seed, memory_options); },
              {.tries = 0});
      const double first_part = choices.part(first.memory_options.checkpointed);
      at_once += first_part <= least + 1e-9;
      EXPECT_GE(first_part, part - 1e-9);
      for (const std::string& module : first.memory_options.checkpointed) {
        MemoryOptions fewer = first.memory_options;
        std::erase(fewer.checkpointed, module);
        EXPECT_FALSE(choices.fits(fewer.checkpointed)) << module;
      }
    }
  }
  EXPECT_GE(tight, 6);
  EXPECT_GE(at_once, 50) << "of 60, without a try";
}

/// Blocks with a result that is cheap to recompute, of various widths.
struct NormedTraining {
  struct Block : Module {
    Conv2d first, second;
    BatchNorm2d norm;
    explicit Block(std::int64_t width)
        : first(8, width, 3, {.padding = 1}), second(width, 8, 3, {.padding = 1}), norm(width) {
      register_module("first", first), register_module("norm", norm);
      register_module("second", second);
    }
    Tensor forward(const Tensor& x) override { return second(norm(first(x), Activation::relu)); }
  };
  Sequential net;
  NormedTraining(unsigned seed, const MemoryOptions& memory_options) {
    std::mt19937 random(seed);
    for (int i = 0; i < 4; ++i) net.push_back(Block(8 << random() % 3));
    memory_options.apply(net);
  }
  void operator()() {
    const memory::Step step;
    net.zero_grad();
    sum(net(randn({128, 8, 32, 32}))).backward();
  }
};

// Every block may be left as it is, checkpointed, or recompute its cheap result.
TEST(FitChoice, IsHardlyWorseThanTheBestOfTwoKinds) {
  memory::Allocator& books = memory::allocator(Device::meta(Device::cpu()));
  const memory::AllocationMode mode = books.mode();
  books.set_mode(memory::AllocationMode::direct);  // so that limits are of allocated bytes, wherever blocks lie
  int mixed = 0;
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    const auto predict = [&](const MemoryOptions& o, std::size_t limit) {
      return memory::predict(Device::cpu(), [&] { return NormedTraining(seed, o); }, {.limit = limit});
    };
    const auto time = [](const memory::Prediction& p) { return step_cost(p.work, DeviceType::cpu); };
    const std::size_t need = predict({}, memory::PredictOptions{}.limit).peak_reserved();
    for (const std::size_t percent : {90, 75, 65}) {
      const std::size_t limit = need * percent / 100;
      double least = std::numeric_limits<double>::infinity();
      for (int choice = 0; choice < 81; ++choice) {
        MemoryOptions o;
        for (int i = 0, rest = choice; i < 4; ++i, rest /= 3)
          if (rest % 3) (rest % 3 == 1 ? o.checkpointed : o.recomputing).push_back(std::to_string(i));
        if (const memory::Prediction p = predict(o, limit); p.fits()) least = std::min(least, time(p));
      }
      const Fit f = fit(Device::cpu(), limit, [&](const MemoryOptions& o) { return NormedTraining(seed, o); });
      SCOPED_TRACE(f.text());
      ASSERT_EQ(f.fits(), least < std::numeric_limits<double>::infinity());
      if (!f.fits()) continue;
      EXPECT_EQ(f.with.period, 1u);
      EXPECT_LE(time(f.with), least * 1.035) << "seed " << seed << ", " << percent << " %";  // at most 1.032 today
      mixed += !f.memory_options.checkpointed.empty() && !f.memory_options.recomputing.empty();
    }
  }
  EXPECT_GE(mixed, 2);
  books.set_mode(mode);
}

}  // namespace
}  // namespace bytetape::nn
