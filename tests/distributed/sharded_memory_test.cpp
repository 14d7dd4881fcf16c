// The memory of a Sharded.
#include "bytetape/distributed/sharded.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "bytetape/bytetape.h"
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
    for (const Tensor& p : sharded.parameters()) state += 2 * rounded(p.nbytes());
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
