// The memory of a Sharded.
#include "bytetape/distributed/sharded.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytetape/autograd/op_observer.h"
#include "bytetape/bytetape.h"
#include "bytetape/core/memory/ambient.h"
#include "tests/distributed/net.h"
#include "tests/distributed/predicted.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using dist::Group;
using dist::Shard;
using dist::Sharded;
using dist::ShardedOptions;
using memory::Role;
using test::all_shards;
using test::Net;
using test::per_rank;
using test::rounded;
using test::world;

TEST(Sharded, HoldsTheBytesOfTheFormula) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto n = static_cast<std::size_t>(group.size());
  for (const Shard shard : all_shards) {
    nn::Sequential net{nn::Linear(30, 50), nn::ReLU(), nn::Linear(50, 7)};
    const Sharded sharded(net, group, {.shard = shard, .gathered_bytes = 0});
    optim::Adam adam(sharded.parameters());
    for (int step = 0; step < 2; ++step) {
      sum(net(randn({4, 30}))).backward();
      adam.step();
    }
    std::size_t size = 0, state = 0;  // all four are in one row, and begin at multiples of 32 elements
    for (const std::size_t numel : {30 * 50, 50, 50 * 7, 7}) size += (numel + 31) / 32 * 32;
    const std::size_t own = ((size + n - 1) / n + 31) / 32 * 32;
    for (const Tensor& p : sharded.parameters())
      if (p.numel() > 0) state += 2 * rounded(p.nbytes());  // a rank may have no elements of a parameter
    const bool has_whole_gradients = shard == Shard::optimizer_state, has_whole = shard != Shard::parameters;
    EXPECT_EQ(test::held_as(Role::parameter), rounded(4 * own * (has_whole ? n : 1)));
    EXPECT_EQ(test::held_as(Role::communication), rounded(4 * own * (has_whole_gradients ? n : 1)));
    EXPECT_EQ(test::held_as(Role::gradient), 0u);
    EXPECT_EQ(test::held_as(Role::optimizer_state), state);
  }
  EXPECT_EQ(test::held_as(Role::parameter), 0u);
  EXPECT_EQ(test::held_as(Role::communication), 0u);
  EXPECT_EQ(test::held_as(Role::gradient), 0u);
}

TEST(Sharded, GathersWithinTheBound) {
  const Group group = world();
  if (group.size() == 1) return;
  nn::Sequential net;
  for (int i = 0; i < 6; ++i) net.push_back(nn::Linear(32, 32, false));
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t row = ((32 * 32 + n - 1) / n + 31) / 32 * 32 * n * 4;
  for (const std::size_t rows : {0, 1, 2, 3, 6}) {
    auto copy = nn::clone(net);
    const Sharded sharded(copy, group, {.row_bytes = 1, .gathered_bytes = rows * row});
    std::size_t most = 0, in_backward = 0;
    for (std::size_t i = 0; i < copy.size(); ++i) {
      copy[i].register_forward_hook(
          [&](const nn::Module&, const auto&, auto&) { most = std::max(most, test::held_as(Role::communication)); });
      copy[i].register_full_backward_hook([&](const nn::Module&, auto&, const auto&) {
        in_backward = std::max(in_backward, test::held_as(Role::communication));
      });
    }
    const Tensor y = sum(copy(randn({2, 32})));
    EXPECT_EQ(most, std::max<std::size_t>(rows, 1) * rounded(row)) << rows;
    y.backward();
    // Backward gathers one more row, and holds a row of gradients on their way, and the parts.
    const std::size_t parts = 6 * rounded(row / n);
    EXPECT_LE(in_backward, (std::max<std::size_t>(rows + 1, 2) + 1) * rounded(row) + parts) << rows;
    EXPECT_EQ(test::held_as(Role::communication), parts);
    {
      const NoGrad no_grad;
      most = 0;
      copy(randn({2, 32}));
      EXPECT_EQ(most, std::max<std::size_t>(rows, 1) * rounded(row) + parts) << "in evaluation";
    }
  }
}

/// Counts the ops that find a parameter's row dropped.
struct Waits : OpObserver {
  int in_forward = 0, in_backward = 0;
  void begin(const OpCall& call) override {
    if (call.caller || call.kind == OpKind::view) return;
    for (const Operand& input : call.inputs)
      if (const Tensor& x = input.tensor(); x.defined() && x.storage().is_dropped())
        ++(memory::ambient.scope.phase == memory::Phase::backward ? in_backward : in_forward);
  }
};

TEST(Sharded, GathersARowAheadIfTheBoundAllowsIt) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t row = ((32 * 32 + n - 1) / n + 31) / 32 * 32 * n * 4;
  for (const int rows : {0, 1, 2, 3, 6}) {
    SCOPED_TRACE(rows);
    nn::Sequential net;
    for (int i = 0; i < 6; ++i) net.push_back(nn::Linear(32, 32, false));
    const Sharded sharded(net, group, {.row_bytes = 1, .gathered_bytes = static_cast<std::size_t>(rows) * row});
    optim::SGD sgd(sharded.parameters(), {.lr = 1e-3});
    std::size_t most = 0;
    for (std::size_t i = 0; i < net.size(); ++i)
      net[i].register_forward_hook(
          [&](const nn::Module&, const auto&, auto&) { most = std::max(most, test::held_as(Role::communication)); });
    const auto step = [&] {
      const Waits waits;
      sum(net(randn({2, 32}))).backward();
      sgd.step();
      sgd.zero_grad();
      return std::pair{waits.in_forward, waits.in_backward};
    };
    // Forward keeps at least a row. The first layer's input needs no gradient, so backward does not need its row.
    const int kept = std::max(rows, 1), needed_again = std::max(0, 5 - kept);
    EXPECT_EQ(step(), std::pair(6, needed_again));
    most = 0;
    const std::pair learned = std::pair(rows >= 2 ? 1 : 6, rows >= 1 ? 0 : needed_again);
    EXPECT_EQ(step(), learned);
    EXPECT_EQ(most, static_cast<std::size_t>(kept) * rounded(row) + 6 * rounded(row / n)) << "with gradients' parts";
    {
      const NoGrad no_grad;
      for (int i = 0; i < 3; ++i) net(randn({2, 32}));
    }
    EXPECT_EQ(step().first, rows >= 2 ? 0 : 6);  // evaluation went on with the first row
    step();
    EXPECT_EQ(step(), learned);
  }
}

/// Counts the copies that the program makes.
struct Copies : OpObserver {
  int count = 0;
  void begin(const OpCall& call) override { count += call.definition.name == std::string_view("copy_"); }
};

/// Counts how often the rows of a module's parameters, one in each, are gathered.
class Gathers : public OpObserver {
 public:
  explicit Gathers(nn::Module& net) : parameters_(net.parameters()), was_dropped_(parameters_.size(), true) {}
  void begin(const OpCall&) override { look(); }
  void end(const OpCall&) noexcept override { look(); }
  int count = 0;

 private:
  void look() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const bool is_dropped = parameters_[i].storage().is_dropped();
      count += was_dropped_[i] && !is_dropped;
      was_dropped_[i] = is_dropped;
    }
  }
  std::vector<Tensor> parameters_;
  std::vector<bool> was_dropped_;
};

TEST(Sharded, KeepsTheBoundInOpsOfSeveralRows) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t row = rounded(((32 * 32 + n - 1) / n + 31) / 32 * 32 * n * 4);
  struct Net : nn::Module {
    std::vector<nn::Linear> layers;
    Net() {
      for (int i = 0; i < 6; ++i) layers.emplace_back(32, 32, false);
      for (std::size_t i = 0; i < 6; ++i) register_module("layer" + std::to_string(i), layers[i]);
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (std::size_t i = 0; i < 6; i += 2) {
        y = matmul(y, matmul(layers[i].weight, layers[i + 1].weight));
        most = std::max(most, test::held_as(Role::communication));
      }
      return y;
    }
    std::size_t most = 0;
  };
  for (const std::size_t rows : {2, 3, 4}) {
    SCOPED_TRACE(rows);
    Net net;
    const Sharded sharded(net, group, {.row_bytes = 1, .gathered_bytes = rows * row});
    optim::SGD sgd(sharded.parameters(), {.lr = 1e-3});
    std::vector<std::pair<int, int>> waits;
    for (int step = 0; step < 6; ++step) {
      const Waits found;
      net.most = 0;
      sum(net(randn({2, 32}))).backward();
      sgd.step();
      sgd.zero_grad();
      const std::size_t parts = step == 0 ? 0 : 6 * rounded(row / n);
      EXPECT_LE(net.most, rows * row + parts) << step;
      waits.emplace_back(found.in_forward, found.in_backward);
    }
    for (int step = 2; step < 6; ++step) EXPECT_EQ(waits[static_cast<std::size_t>(step)], waits[1]) << step;
  }
}

TEST(Sharded, GathersNoRowTwiceToGatherAnotherAhead) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t row = ((16 * 16 + n - 1) / n + 31) / 32 * 32 * n * 4;
  nn::Linear a(16, 16, false), b(16, 16, false), c(16, 16, false);
  struct Net : nn::Module {
    Net(nn::Linear& a, nn::Linear& b, nn::Linear& c) : a(a), b(b), c(c) {
      register_module("a", a);
      register_module("b", b);
      register_module("c", c);
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (int i = 0; i < 4; ++i) y = tanh(b(tanh(a(y))));
      return c(y);
    }
    nn::Linear &a, &b, &c;
  } net(a, b, c);
  const Sharded sharded(net, group, {.row_bytes = 1, .gathered_bytes = 2 * row});
  const auto gathers_of_forward = [&] {
    const NoGrad no_grad;
    const Gathers gathers(net);
    net(randn({2, 16}));
    sharded.note_written();  // frees all
    return gathers.count;
  };
  EXPECT_EQ(gathers_of_forward(), 3);
  gathers_of_forward();  // learns that `a` is needed again
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gathers_of_forward(), 3);
}

TEST(Sharded, GathersNoMoreForCheckpoints) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t row = ((32 * 32 + n - 1) / n + 31) / 32 * 32 * n * 4;
  for (const std::size_t rows : {1, 2, 3}) {
    SCOPED_TRACE(rows);
    nn::Sequential net;
    for (int i = 0; i < 6; ++i) net.push_back(nn::Linear(32, 32, false));
    for (std::size_t i = 0; i < 6; ++i) net[i].set_checkpointed();
    const Sharded sharded(net, group, {.row_bytes = 1, .gathered_bytes = rows * row});
    optim::SGD sgd(sharded.parameters(), {.lr = 1e-3});
    std::vector<int> counts;
    for (int step = 0; step < 5; ++step) {
      const Gathers gathers(net);
      sum(net(randn({2, 32}))).backward();
      sgd.step();
      sgd.zero_grad();
      counts.push_back(gathers.count);
    }
    for (const int count : counts) EXPECT_LE(count, counts[0]);
  }
}

TEST(Sharded, CapturedStepsLeaveNoRowGathered) {
  for (const std::optional<DType> dtype : {std::optional<DType>(), std::optional(DType::bf16)}) {
    bool was_captured = false;
    const auto program = [&] {
      struct State {
        nn::Sequential net{nn::Linear(8, 8), nn::Linear(8, 8), nn::Linear(8, 8)};
        std::optional<Sharded> sharded;
        std::optional<optim::Adam> adam;
        std::optional<CapturedStep<std::function<Tensor(const Tensor&)>>> captured, evaluated;
      };
      auto state = std::make_shared<State>();
      state->sharded.emplace(state->net, dist::init(), ShardedOptions{.row_bytes = 1, .parameter_dtype = dtype});
      state->adam.emplace(state->sharded->parameters());
      state->captured.emplace([s = state.get()](const Tensor& x) {
        s->adam->zero_grad();
        const Tensor loss = sum(s->net(x));
        loss.backward();
        s->adam->step();
        return loss;
      });
      state->evaluated.emplace([s = state.get()](const Tensor& x) {
        const NoGrad no_grad;
        return s->net(x);
      });
      return [&, state, step = 0]() mutable {
        const Tensor x = randn({2, 8}, dtype.value_or(DType::f32));
        const auto expect_dropped = [&](bool is_dropped) {
          for (const Tensor& p : state->net.parameters()) EXPECT_EQ(p.storage().is_dropped(), is_dropped) << step;
        };
        (*state->captured)(x);
        expect_dropped(true);
        const std::uint32_t version = state->net[0].parameters()[0].storage().version();
        if (step % 2 == 1) {
          const NoGrad no_grad;
          state->net(x);  // gathers rows, which the next replay makes old
          expect_dropped(false);
        }
        Copies copies;
        state->sharded->parameters();
        EXPECT_EQ(copies.count, 0) << "nothing was written since the step";
        (*state->evaluated)(x);
        if (state->evaluated->is_captured() && step % 2 == 0) expect_dropped(true);
        (*state->captured)(x);
        expect_dropped(true);
        EXPECT_GT(state->net[0].parameters()[0].storage().version(), version);
        was_captured = state->captured->is_captured();
        ++step;
      };
    };
    memory::predict(Device::cuda(), program, {.max_steps = 6, .world_size = 2, .rank = 1});
    EXPECT_TRUE(was_captured);
  }
}

TEST(Sharded, GoesOnIfAnotherRowIsNeeded) {
  const Group group = world();
  struct Branches : nn::Module {
    std::vector<nn::Linear> layers;
    Branches() {
      for (int i = 0; i < 4; ++i) layers.emplace_back(16, 16);
      for (int i = 0; i < 4; ++i) register_module("layer" + std::to_string(i), layers[static_cast<std::size_t>(i)]);
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (const std::size_t i : order) y = tanh(layers[i](y));
      return y;
    }
    std::vector<std::size_t> order;
  };
  for (const std::size_t gathered_bytes : {0, 2000, 4000, 100000}) {
    Generator generator(1);
    const DefaultGenerator scope(generator);
    Branches net, reference;
    for (std::size_t i = 0; i < 4; ++i) reference.layers[i].load_state_dict(net.layers[i].state_dict());
    const dist::DataParallel parallel(reference, group, {.allow_unused = true});
    const Sharded sharded(net, group, {.row_bytes = 1, .gathered_bytes = gathered_bytes, .allow_unused = true});
    optim::SGD sgd(sharded.parameters(), {.lr = 0.1}), of_reference(reference.parameters(), {.lr = 0.1});
    for (const std::vector<std::size_t>& order : std::vector<std::vector<std::size_t>>{
             {0, 1, 2, 3}, {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2}, {0, 2}, {1, 1, 3, 1}, {0, 1, 2, 3}, {2}, {2, 0}}) {
      net.order = reference.order = order;
      const Tensor x = randn({3, 16}) + static_cast<double>(group.rank());
      for (const auto& [module, optimizer] :
           {std::pair<Branches*, optim::SGD*>{&net, &sgd}, {&reference, &of_reference}}) {
        sum((*module)(x)).backward();
        optimizer->step();
        optimizer->zero_grad();
      }
      EXPECT_EQ(test::elements(test::flat(net)), test::elements(test::flat(reference)));
    }
  }
}

/// Makes a program, and returns its step.
std::function<void()> training(const ShardedOptions& options) {
  struct State {
    Net net;
    std::optional<Sharded> sharded;
    std::optional<optim::Adam> adam;
  };
  auto state = std::make_shared<State>();
  state->sharded.emplace(state->net, world(), options);
  state->net.uses_extra = !options.allow_unused;
  state->adam.emplace(state->sharded->parameters());
  return [state] {
    const memory::Step step;
    const auto [x, t] = test::random_batch();
    cross_entropy(state->net(x), t).backward();
    state->sharded->clip_grad_norm_(1);
    state->adam->step();
    state->adam->zero_grad();
  };
}

TEST(Sharded, MovesAModelOfTheHostInRows) {
  memory::Watermark made;
  const auto program = [&] {
    struct State {
      nn::Sequential net;
      std::optional<Sharded> sharded;
      State() {
        const DefaultDevice host(Device::meta(Device::cpu()));
        for (int i = 0; i < 8; ++i) net.push_back(nn::Linear(256, 256, false));
        net.push_back(nn::BatchNorm1d(256, {.affine = false}));
      }
    };
    auto state = std::make_shared<State>();
    state->sharded.emplace(state->net, dist::init(), ShardedOptions{.row_bytes = 1, .device = default_device()});
    made = test::statistics(default_device()).allocated;
    for (const auto& [name, x] : state->net.state_dict()) EXPECT_EQ(x.device(), default_device()) << name;
    return [state] { sum(state->net(randn({2, 256}))).backward(); };
  };
  const auto p = memory::predict(Device::cuda(), program, {.max_steps = 1, .world_size = 4, .rank = 1});
  const std::size_t row = 256 * 256 * 4, parts = 8 * row / 4;
  EXPECT_GE(made.current, parts);
  EXPECT_LT(made.current, parts + row);
  EXPECT_LT(made.peak, parts + 2 * row) << "the whole model takes 8 rows";
}

TEST(Sharded, IsPredictedEventByEventForEachRank) {
  for (const Shard shard : all_shards)
    for (const bool allow_unused : {false, true})
      test::expect_predicted([&] { return training({shard, 1000, 1000, allow_unused}); });
}

TEST(Sharded, IsPredictedInCapturedStepsOfAGpu) {
  for (const Shard shard : all_shards) {
    std::vector<std::size_t> peaks;
    for (const bool is_captured : {false, true}) {
      const auto program = [&] {
        struct State {
          Net net;
          std::optional<Sharded> sharded;
          std::optional<optim::Adam> adam;
          std::optional<CapturedStep<std::function<Tensor(const Tensor&, const Tensor&)>>> captured;
        };
        auto state = std::make_shared<State>();
        state->sharded.emplace(state->net, dist::init(), ShardedOptions{shard, 1000, 1000});
        state->adam.emplace(state->sharded->parameters());
        const auto step = [s = state.get()](const Tensor& x, const Tensor& t) {
          const Tensor loss = cross_entropy(s->net(x), t);
          loss.backward();
          s->sharded->clip_grad_norm_(1);
          s->adam->step();
          s->adam->zero_grad();
          return loss;
        };
        state->captured.emplace(step);
        return [state, step, is_captured] {
          const memory::Step scope;
          const Tensor x = randn({per_rank, 1, 4, 4}), t = randint(0, 8, {per_rank}, DType::i64);
          is_captured ? (*state->captured)(x, t) : step(x, t);
        };
      };
      const auto p = memory::predict(Device::cuda(), program, {.world_size = 4, .rank = 1});
      EXPECT_TRUE(p.is_settled());
      EXPECT_GT(p.snapshot.statistics.by_role[static_cast<std::size_t>(Role::communication)].current, 0u);
      peaks.push_back(p.steps.back().allocated);
    }
    EXPECT_GE(peaks[1], peaks[0]);  // a graph keeps its memory
  }
}

}  // namespace
}  // namespace bytetape
