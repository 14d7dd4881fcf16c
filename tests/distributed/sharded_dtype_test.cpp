// A Sharded whose parameters have 16 bits, and whose parts are f32.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/distributed/net.h"
#include "tests/distributed/predicted.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using dist::Group;
using dist::Shard;
using dist::Sharded;
using dist::ShardedOptions;
using memory::Role;
using test::all_shards;
using test::elements;
using test::flat;
using test::loss_of;
using test::make_net;
using test::Net;
using test::rounded;
using test::world;

constexpr DType dtype = DType::bf16;

/// What a program without Sharded does for the same: f32 copies of 16-bit parameters, which the optimizer updates.
class Reference {
 public:
  explicit Reference(const Group& group) : group_(group), net_(make_net(5, DType::f32)) {
    for (const Tensor& p : net_->parameters()) copies_.push_back(clone(p.detach()).set_requires_grad());
    net_->to(dtype);
    parallel_.emplace(*net_, group);
    adamw_.emplace(copies_, optim::AdamWOptions{.lr = 0.01});
  }
  void step(int i, double max_norm) {
    loss_of(*net_, i, group_, dtype).backward();
    const auto parameters = net_->parameters();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      copies_[k].set_grad(to(parameters[k].grad(), DType::f32));
      Tensor(parameters[k]).set_grad({});
    }
    if (max_norm > 0) optim::clip_grad_norm_(copies_, max_norm);
    adamw_->step();
    const NoGrad no_grad;
    for (std::size_t k = 0; k < parameters.size(); ++k) copy_(parameters[k], copies_[k]);
  }
  Net& net() { return *net_; }
  const std::vector<Tensor>& copies() const { return copies_; }

 private:
  const Group group_;
  std::unique_ptr<Net> net_;
  std::vector<Tensor> copies_;
  std::optional<dist::DataParallel> parallel_;
  std::optional<optim::AdamW> adamw_;
};

/// Returns this rank's elements of `whole`.
std::vector<double> own(const Sharded::Part& part, const Tensor& whole) {
  return elements(narrow(reshape(whole.detach(), {-1}), 0, part.begin, part.end - part.begin));
}

TEST(ShardedDType, HasTheBitsOfCopiesInF32) {
  const Group group = world();
  Reference reference(group);
  for (int i = 0; i < 5; ++i) reference.step(i, 0);
  const auto expected = elements(flat(reference.net()));
  for (const Shard shard : all_shards)
    for (const std::size_t row_bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{25} << 20})
      for (const std::size_t gathered_bytes : {std::size_t{0}, std::size_t{50} << 20}) {
        const auto net = make_net(static_cast<std::uint64_t>(5 + group.rank()), DType::f32);
        const Sharded sharded(*net, group, {shard, row_bytes, gathered_bytes, false, dtype});
        optim::AdamW adamw(sharded.parameters(), {.lr = 0.01});
        for (int i = 0; i < 5; ++i) {
          loss_of(*net, i, group, dtype).backward();
          for (const Tensor& p : sharded.parameters()) EXPECT_EQ(p.grad().dtype(), dtype);
          adamw.step();
          adamw.zero_grad();
        }
        EXPECT_EQ(elements(flat(*net)), expected);
        const auto parts = sharded.parts();
        ASSERT_EQ(parts.size(), reference.copies().size());
        for (std::size_t i = 0; i < parts.size(); ++i) {
          EXPECT_EQ(parts[i].values.dtype(), DType::f32);
          EXPECT_EQ(elements(parts[i].values), own(parts[i], reference.copies()[i])) << parts[i].name;
        }
        for (const Tensor& p : net->parameters()) EXPECT_EQ(p.dtype(), dtype);
      }
}

TEST(ShardedDType, GivesAndTakesGradientsAndWholeValues) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    const auto net = make_net(5, DType::f32), other = make_net(5, DType::f32);
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 1000, .parameter_dtype = dtype});
    const Sharded each(*other, group, {.shard = shard, .row_bytes = 1000, .parameter_dtype = dtype});
    optim::AdamW adamw(sharded.parameters()), of_other(each.parameters());
    for (int i = 0; i < 2; ++i) {
      loss_of(*net, i, group, dtype).backward();
      loss_of(*other, i, group, dtype).backward();
      const auto parts = each.parameters();
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const Tensor g = parts[k].grad();
        Tensor(parts[k]).set_grad(k % 2 ? clone(g) : to(g, DType::f32));
      }
      adamw.step();
      of_other.step();
      adamw.zero_grad();
      of_other.zero_grad();
    }
    EXPECT_EQ(elements(flat(*net)), elements(flat(*other)));
    const auto state = sharded.state_dict();
    const auto rounded_state = net->state_dict();
    ASSERT_EQ(state.size(), rounded_state.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
      EXPECT_EQ(state[i].first, rounded_state[i].first);
      EXPECT_EQ(state[i].second.shape(), rounded_state[i].second.shape());
      EXPECT_EQ(state[i].second.dtype(), DType::f32) << state[i].first;
      EXPECT_NE(elements(state[i].second), elements(rounded_state[i].second));
      EXPECT_EQ(elements(to(state[i].second, dtype)), elements(rounded_state[i].second));
    }
    Tensor leaf = randn({4}).set_requires_grad();
    EXPECT_THROWS_SAYING(leaf.set_grad(zeros({4}, dtype)), DTypeError, "must have the dtype of its tensor");
  }
}

TEST(ShardedDType, KeepsUpdatesThatSixteenBitsLose) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    nn::Linear net(64, 1, false);
    {
      const NoGrad no_grad;
      fill_(net.weight, 1);
    }
    const Sharded sharded(net, group, {.shard = shard, .parameter_dtype = DType::bf16});
    optim::SGD sgd(sharded.parameters(), {.lr = 1e-3});
    for (int i = 0; i < 8; ++i) {
      sum(net(ones({1, 64}, DType::bf16))).backward();
      sgd.step();
      sgd.zero_grad();
    }
    EXPECT_NEAR(elements(net.weight)[63], 0.992, 1e-9 + 0.992 / 256);
    EXPECT_LT(elements(net.weight)[63], 1);
    for (const double x : elements(sharded.parameters()[0])) EXPECT_NEAR(x, 0.992, 1e-6);
  }
}

TEST(ShardedDType, ClipsAndAddsGradients) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    Reference reference(group);
    const auto net = make_net(5, DType::f32);
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 1000, .parameter_dtype = DType::bf16});
    loss_of(*net, 0, group, DType::bf16).backward();
    loss_of(reference.net(), 0, group, DType::bf16).backward();
    const Tensor norm = sharded.clip_grad_norm_(0.01);
    EXPECT_NEAR(norm.item<double>(), optim::clip_grad_norm_(reference.net().parameters(), 0.01).item<double>(), 1e-5);
    const auto parts = sharded.parts();
    const auto expected = reference.net().parameters();
    std::vector<Tensor> before;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      before.push_back(to(clone(parts[i].values.grad()), DType::f32));
      EXPECT_TRUE(test::all_close(
          before[i],
          narrow(reshape(to(expected[i].grad(), DType::f32), {-1}), 0, parts[i].begin, parts[i].end - parts[i].begin),
          1e-2, 1e-6))
          << parts[i].name;
    }
    loss_of(*net, 0, group, DType::bf16).backward();  // adds the whole gradient to the clipped one
    const double factor = 0.01 / (norm.item<double>() + 1e-6);
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_TRUE(test::all_close(to(parts[i].values.grad(), DType::f32), before[i] * (1 + 1 / factor), 3e-2, 1e-4));
  }
}

TEST(ShardedDType, KeepsThePrecisionOfWhatTheProgramDoesNotWrite) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    nn::Linear net(40, 4);
    std::vector<double> weight = elements(net.weight);
    const Sharded sharded(net, group, {.shard = shard, .parameter_dtype = DType::bf16});
    {
      const NoGrad no_grad;
      fill_(net.bias, 1.2345);
      fill_(net.weight[1], std::numeric_limits<double>::quiet_NaN());
    }
    const auto parts = sharded.parts();
    for (const double x : elements(parts[1].values)) EXPECT_EQ(x, 1.234375);  // in bf16
    for (std::int64_t i = parts[0].begin; i < parts[0].end; ++i) {
      const double x = elements(parts[0].values)[static_cast<std::size_t>(i - parts[0].begin)];
      if (i / 40 == 1) {
        EXPECT_TRUE(std::isnan(x));
      } else if (group.rank() == 0) {  // whose values all ranks have
        EXPECT_EQ(x, weight[static_cast<std::size_t>(i)]);
      }
    }
  }
}

TEST(ShardedDType, TakesAutocastAndAGradientScaler) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    nn::Sequential net{
        nn::Linear(16, 16),       nn::BatchNorm1d(2),
        nn::LayerNorm(Shape{16}), nn::TransformerEncoderLayer(16, 2, {.dim_feedforward = 32, .dropout = 0}),
        nn::RMSNorm(Shape{16}),   nn::GroupNorm(2, 2),
        nn::Linear(16, 4)};
    const Sharded sharded(net, group, {.shard = shard, .row_bytes = 1000, .parameter_dtype = DType::bf16});
    optim::Adam adam(sharded.parameters());
    optim::GradScaler scaler({.init_scale = 1024});
    for (int i = 0; i < 3; ++i) {
      const std::vector<double> before = elements(flat(net));
      Tensor x = randn({2, 2, 16});
      if (i == 1 && group.rank() == 0) x = x * std::numeric_limits<double>::infinity();
      Tensor loss;
      {
        const Autocast autocast(DType::bf16);
        const Tensor y = net(x);
        loss = mean(y * y);
      }
      scaler.scale(loss).backward();
      scaler.step(adam);
      scaler.update();
      adam.zero_grad();
      const bool is_equal = elements(flat(net)) == before;  // BatchNorm's statistics are no parameters
      EXPECT_EQ(is_equal, i == 1) << "all ranks skip the step of which one overflows";
    }
  }
}

TEST(ShardedDType, HoldsTheBytesOfTheFormula) {
  const Group group = world();
  const auto n = static_cast<std::size_t>(group.size());
  for (const Shard shard : all_shards) {
    nn::Sequential net{nn::Linear(300, 50), nn::ReLU(), nn::Linear(50, 7)};
    const Sharded sharded(net, group, {.shard = shard, .gathered_bytes = 0, .parameter_dtype = DType::bf16});
    optim::Adam adam(sharded.parameters());
    for (int step = 0; step < 2; ++step) {
      sum(net(randn({4, 300}, DType::bf16))).backward();
      adam.step();
    }
    std::size_t size = 0, state = 0;  // all four are in one row, and begin at multiples of 64 elements
    for (const std::size_t numel : {300 * 50, 50, 50 * 7, 7}) size += (numel + 63) / 64 * 64;
    const std::size_t own = ((size + n - 1) / n + 63) / 64 * 64;
    for (const Tensor& p : sharded.parameters())
      if (p.numel() > 0) state += 2 * rounded(p.nbytes());  // a rank may have no elements of a parameter
    const bool has_whole_gradients = shard == Shard::optimizer_state, has_whole = shard != Shard::parameters;
    EXPECT_EQ(test::held_as(Role::parameter), rounded(4 * own) + (has_whole ? rounded(2 * own * n) : 0));
    EXPECT_EQ(test::held_as(Role::communication), rounded(2 * own * (has_whole_gradients ? n : 1)));
    EXPECT_EQ(test::held_as(Role::gradient), 0u);
    EXPECT_EQ(test::held_as(Role::optimizer_state), state);
  }
}

std::function<void()> training(const ShardedOptions& options) {
  struct State {
    Net net;
    std::optional<Sharded> sharded;
    std::optional<optim::Adam> adam;
  };
  auto state = std::make_shared<State>();
  state->sharded.emplace(state->net, dist::init(), options);
  state->adam.emplace(state->sharded->parameters());
  return [state, dtype = *options.parameter_dtype] {
    const memory::Step step;
    const auto [x, t] = test::random_batch();
    cross_entropy(state->net(to(x, dtype)), t).backward();
    state->sharded->clip_grad_norm_(1);
    state->adam->step();
    state->adam->zero_grad();
  };
}

TEST(ShardedDType, IsPredictedEventByEventForEachRank) {
  for (const Shard shard : all_shards)
    test::expect_predicted([&] { return training({shard, 1000, 1000, false, DType::bf16}); });
}

TEST(ShardedDType, RefusesOtherDTypes) {
  const Group group = world();
  nn::Linear net(4, 4);
  for (const DType other : {DType::f16, DType::f32, DType::f64, DType::i32})
    EXPECT_THROWS_SAYING(Sharded(net, group, {.parameter_dtype = other}), DTypeError, "expected parameter_dtype bf16");
  net.to(DType::f64);  // stays as it is
  const Sharded sharded(net, group, {.parameter_dtype = DType::bf16});
  EXPECT_EQ(net.weight.dtype(), DType::f64);
  sum(net(ones({1, 4}, DType::f64))).backward();
  optim::SGD(sharded.parameters(), {.lr = 1}).step();
}

}  // namespace
}  // namespace bytetape
