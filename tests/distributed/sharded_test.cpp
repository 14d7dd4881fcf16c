#include "bytetape/distributed/sharded.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "bytetape/bytetape.h"
#include "tests/distributed/net.h"
#include "tests/distributed/ranks.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using dist::Group;
using dist::Shard;
using dist::Sharded;
using dist::ShardedOptions;
using memory::Role;
using test::elements;
using test::flat;
using test::joined;
using test::make_net;
using test::Net;
using test::part;
using test::per_rank;
using test::rounded;
using test::world;

constexpr Shard all_shards[] = {Shard::optimizer_state, Shard::gradients, Shard::parameters};

/// The loss of this rank's part of a batch.
Tensor loss_of(nn::Module& net, int step, const Group& group, DType dtype = DType::f64) {
  const auto batch = joined(step, group.size());
  return cross_entropy(net(to(part(batch.first, group.rank()), dtype)), part(batch.second, group.rank()));
}

/// Trains a net, whose parameters `parameters` stand for, and returns the values of all parameters.
std::vector<double> train(Net& net, const std::vector<Tensor>& parameters, const Group& group, DType dtype) {
  optim::AdamW adamw(parameters, {.lr = 0.01});
  optim::lr_scheduler::StepLR rates(adamw, {.step_size = 2, .gamma = 0.5});
  for (int step = 0; step < 5; ++step) {
    loss_of(net, step, group, dtype).backward();
    adamw.step();
    adamw.zero_grad();
    rates.step();
  }
  return elements(flat(net));
}

TEST(Sharded, HasTheBitsOfDataParallel) {
  const Group group = world();
  for (const DType dtype : {DType::f64, DType::f32}) {
    const auto reference = make_net(5, dtype);
    const dist::DataParallel parallel(*reference, group);
    const auto expected = train(*reference, reference->parameters(), group, dtype);
    for (const Shard shard : all_shards)
      for (const std::size_t row_bytes : {std::size_t{1}, std::size_t{2000}, std::size_t{25} << 20})
        for (const std::size_t gathered_bytes : {std::size_t{0}, std::size_t{50} << 20}) {
          const auto net = make_net(static_cast<std::uint64_t>(5 + group.rank()), dtype);
          const Sharded sharded(*net, group, {shard, row_bytes, gathered_bytes});
          EXPECT_EQ(train(*net, sharded.parameters(), group, dtype), expected);
          EXPECT_TRUE(sharded.unused().empty());
        }
  }
}

TEST(Sharded, HasTheSameBitsInTwentyRuns) {
  const Group group = world();
  const auto run = [&] {
    const auto net = make_net(5, DType::f32);
    const Sharded sharded(*net, group, {.row_bytes = 1000, .gathered_bytes = 0});
    return train(*net, sharded.parameters(), group, DType::f32);
  };
  const auto first = run();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(run(), first);
}

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

TEST(Sharded, AddsGradientsOfSeveralBackwards) {
  const Group group = world();
  if (group.size() == 1) return;
  for (const Shard shard : all_shards) {
    const auto net = make_net(), other = make_net();
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000});
    const Sharded each(*other, group, {.shard = shard, .row_bytes = 2000});
    const auto parameters = sharded.parameters(), expected = each.parameters();
    std::vector<Tensor> sums;
    for (int step = 0; step < 3; ++step) {
      loss_of(*net, step, group).backward();
      loss_of(*other, step, group).backward();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Tensor g = clone(expected[i].grad());
        step == 0 ? sums.push_back(g) : static_cast<void>(sums[i] = sums[i] + g);
        Tensor(expected[i]).set_grad({});
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(elements(parameters[i].grad()), elements(sums[i]));
    Tensor(parameters[0]).set_grad({});  // one alone begins anew
    loss_of(*net, 7, group).backward();
    loss_of(*other, 7, group).backward();
    EXPECT_EQ(elements(parameters[0].grad()), elements(expected[0].grad()));
    EXPECT_EQ(elements(parameters[1].grad()), elements(sums[1] + expected[1].grad()));
  }
}

TEST(Sharded, TakesParametersThatRanksLeaveOut) {
  const Group group = world();
  for (const Shard shard : all_shards)
    for (const std::size_t row_bytes : {std::size_t{1}, std::size_t{25} << 20}) {
      const auto net = make_net(), reference = make_net();
      const dist::DataParallel parallel(*reference, group, {.allow_unused = true});
      const Sharded sharded(*net, group, {.shard = shard, .row_bytes = row_bytes, .allow_unused = true});
      optim::Adam adam(sharded.parameters()), of_reference(reference->parameters());
      for (int step = 0; step < 4; ++step) {
        // The last rank, all ranks, no rank, and the last rank leave it out; or all ranks, where all gather it.
        const bool is_last = group.rank() == group.size() - 1 || shard == Shard::parameters;
        const bool leaves_out = step == 1 || (step % 3 == 0 && is_last);
        net->uses_extra = reference->uses_extra = !leaves_out;
        loss_of(*net, step, group).backward();
        loss_of(*reference, step, group).backward();
        EXPECT_EQ(sharded.unused(), parallel.unused());
        EXPECT_EQ(sharded.unused().empty(), group.size() == 1 || !leaves_out);
        adam.step();
        of_reference.step();
        adam.zero_grad();
        of_reference.zero_grad();
        EXPECT_EQ(elements(flat(*net)), elements(flat(*reference))) << step;
      }
    }
}

TEST(Sharded, NamesParametersWithoutAGradient) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto net = make_net();
  const Sharded sharded(*net, group);
  net->uses_extra = false;
  EXPECT_THROWS_SAYING(loss_of(*net, 0, group).backward(), AutogradError,
                       "no gradient of 'extra.bias'; if that is intended");
  EXPECT_EQ(sharded.unused(), (std::vector<std::string>{"extra.bias"}));
  net->uses_extra = true;
  for (Tensor p : sharded.parameters()) p.set_grad({});
  loss_of(*net, 0, group).backward();  // goes on
  EXPECT_TRUE(sharded.unused().empty());
}

TEST(Sharded, ClipsTheNormOfAllRanks) {
  const Group group = world();
  for (const Shard shard : all_shards)
    for (const double most : {0.01, 1e6}) {
      const auto net = make_net(), reference = make_net();
      const dist::DataParallel parallel(*reference, group);
      const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000});
      loss_of(*net, 0, group).backward();
      loss_of(*reference, 0, group).backward();
      const Tensor norm = sharded.clip_grad_norm_(most);
      const Tensor expected = optim::clip_grad_norm_(reference->parameters(), most);
      EXPECT_NEAR(norm.item<double>(), expected.item<double>(), 1e-12);
      optim::SGD sgd(sharded.parameters(), {.lr = 1}), of_reference(reference->parameters(), {.lr = 1});
      sgd.step();
      of_reference.step();
      EXPECT_TRUE(test::all_close(flat(*net), flat(*reference), 1e-12, 1e-12));
      EXPECT_THROWS_SAYING(sharded.clip_grad_norm_(-1), ValueError, "max_norm must not be negative");
      if (group.size() == 1) continue;
      EXPECT_THROWS_SAYING(optim::clip_grad_norm_(sharded.parameters(), 1), ValueError, "dist::Sharded");
    }
}

TEST(Sharded, SkipsAStepOnAllRanksIfOneOverflows) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    const auto net = make_net(5, DType::f32);
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000});
    optim::SGD sgd(sharded.parameters(), {.lr = 0.1});
    optim::GradScaler scaler;
    const auto before = elements(flat(*net));
    // The gradient of one element overflows, which one rank alone owns.
    const auto step = [&](double factor) {
      const Tensor bias = net->out.parameters()[1];
      const Tensor loss = loss_of(*net, 0, group, DType::f32) + select(bias, 0, 0) * factor;
      scaler.scale(loss).backward();
      scaler.step(sgd);
      scaler.update();
      sgd.zero_grad();
    };
    step(1e38);
    EXPECT_EQ(elements(flat(*net)), before);
    EXPECT_EQ(scaler.get_scale(), 32768);
    step(1);
    EXPECT_NE(elements(flat(*net)), before);
    EXPECT_EQ(scaler.get_scale(), 32768);
    test::expect_equal_on_all_ranks(*net, group);
  }
}

TEST(Sharded, TrainsAModelOfWhichARankOwnsNothing) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    nn::Linear net(2, 1), reference(2, 1);
    reference.load_state_dict(net.state_dict());
    const dist::DataParallel parallel(reference, group);
    const Sharded sharded(net, group, {.shard = shard});
    optim::Adam adam(sharded.parameters()), of_reference(reference.parameters());
    optim::GradScaler scaler;
    for (int step = 0; step < 3; ++step) {
      const Tensor x = test::values_of(group.rank(), {4, 2}, DType::f32, "x" + std::to_string(step));
      scaler.scale(sum(net(x))).backward();
      if (step == 1) scaler.unscale_(adam);
      if (step == 1) sharded.clip_grad_norm_(1e9);
      scaler.step(adam);
      scaler.update();
      sum(reference(x)).backward();
      of_reference.step();
      adam.zero_grad();
      of_reference.zero_grad();
      EXPECT_EQ(elements(net.weight), elements(reference.weight));
    }
    EXPECT_EQ(sharded.optimizer_state(adam).tensors.size(), 4u);
  }
}

TEST(Sharded, TakesParameterGroups) {
  const Group group = world();
  const auto split = [](const nn::NamedTensors& named) {
    std::vector<optim::ParamGroup> groups(2);
    groups[1].lr = 0.5;
    for (const auto& [name, p] : named) groups[name.find("weight") != std::string::npos].params.push_back(p);
    return groups;
  };
  for (const Shard shard : all_shards) {
    const auto net = make_net(), reference = make_net();
    const dist::DataParallel parallel(*reference, group);
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000, .gathered_bytes = 0});
    optim::RMSprop rmsprop(split(sharded.named_parameters()), {.lr = 0.01, .momentum = 0.9});
    optim::RMSprop of_reference(split(reference->named_parameters()), {.lr = 0.01, .momentum = 0.9});
    for (int step = 0; step < 3; ++step) {
      loss_of(*net, step, group).backward();
      loss_of(*reference, step, group).backward();
      rmsprop.step();
      of_reference.step();
      rmsprop.zero_grad();
      of_reference.zero_grad();
    }
    EXPECT_EQ(elements(flat(*net)), elements(flat(*reference)));
    const StateDict state = sharded.optimizer_state(rmsprop), expected = of_reference.state_dict();
    EXPECT_EQ(state.numbers, expected.numbers);
    for (const auto& [name, x] : expected.tensors) EXPECT_EQ(elements(state.tensor(name)), elements(x)) << name;
  }
}

TEST(Sharded, KeepsValuesThatTheProgramWrites) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    const auto net = make_net(), other = make_net(11);
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000, .gathered_bytes = 0});
    net->load_state_dict(other->state_dict());
    loss_of(*net, 0, group).backward();  // gathers and frees each row
    EXPECT_EQ(elements(flat(*net)), elements(flat(*other)));
  }
}

TEST(Sharded, StepsFromValuesThatTheProgramWrote) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    nn::Linear net(40, 4);
    const Sharded sharded(net, group, {.shard = shard});
    optim::SGD sgd(sharded.parameters(), {.lr = 1});
    const auto write = [&](double value) {
      const NoGrad no_grad;
      fill_(net.weight, value);
    };
    sum(net(ones({1, 40}))).backward();  // all gradients are 1
    write(5);
    sgd.step();
    EXPECT_EQ(elements(net.weight), std::vector<double>(160, 4));
    nn::Linear other(40, 4);
    {
      const NoGrad no_grad;
      fill_(other.weight, 7);
    }
    net.load_state_dict(other.state_dict());
    const Tensor own = sharded.parameters()[0];
    EXPECT_EQ(elements(own), std::vector<double>(static_cast<std::size_t>(own.numel()), 7));
  }
}

TEST(Sharded, TakesOpsThatOneRankRunsAlone) {
  const Group group = world();
  nn::Sequential net{nn::LayerNorm(Shape{16}), nn::Linear(16, 16), nn::Linear(16, 16)};
  const Sharded sharded(net, group, {.row_bytes = 2000, .gathered_bytes = 0});
  if (group.rank() == 0)
    net[0].register_forward_hook([](const nn::Module&, const auto&, auto& y) { mean(y.at(0).detach()); });
  sum(net(ones({2, 16}))).backward();
  EXPECT_TRUE(sharded.parameters()[0].grad().defined());
}

TEST(Sharded, LeavesTheModuleUsableIfItCannotBeMade) {
  struct Model : nn::Module {
    nn::Linear a{8, 8};
    Model() {
      register_module("a", a);
      register_buffer("big", transpose(zeros({3000, 2000}), 0, 1));  // whose broadcast needs a copy
    }
  } model;
  const Group group = world();
  if (group.size() == 1) return;
  memory::empty_cache();
  memory::set_limit(memory::stats().reserved.current + 4'000'000);
  EXPECT_THROW(Sharded(model, group, {.shard = Shard::gradients}), OutOfMemory);
  memory::set_limit(std::numeric_limits<std::size_t>::max());
  sum(model.a(ones({1, 8}))).backward();
  EXPECT_TRUE(model.a.weight.grad().defined());
}

TEST(Sharded, ClipsWhateverTheGradientsAre) {
  const Group group = world();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    nn::Linear net(40, 4);
    net.to(dtype);
    const Sharded sharded(net, group, {.row_bytes = 1});
    const Tensor x = full({1, 40}, dtype == DType::f32 ? 1e20 : 3, dtype);  // the square of the norm leaves f32
    sum(net(x)).backward();
    for (Tensor p : sharded.parameters()) p.set_grad(to(to(p.grad(), DType::f32) * 2., dtype));  // replaced
    const double norm = sharded.clip_grad_norm_(1).item<double>();
    EXPECT_NEAR(norm / std::sqrt(160 * std::pow(2 * x[0][0].item<double>(), 2) + 16), 1, 1e-5);
    const double after = sharded.clip_grad_norm_(1e9).item<double>();
    EXPECT_NEAR(after, 1, dtype == DType::f32 ? 1e-5 : 1e-2);
    for (const Tensor& p : sharded.parameters()) EXPECT_TRUE(!p.grad().defined() || p.grad().dtype() == dtype);
  }
}

TEST(Sharded, WorksWithCheckpointsAutocastAndDropout) {
  const Group group = world();
  for (const bool is_checkpointed : {false, true}) {
    const auto make = [&] {
      Generator generator(3);
      const DefaultGenerator scope(generator);
      nn::Sequential net;
      for (int i = 0; i < 3; ++i)
        net.push_back(nn::Sequential{nn::Linear(16, 16), nn::LayerNorm(Shape{16}), nn::ReLU(), nn::Dropout(0.2)});
      for (std::size_t i = 0; i < net.size(); ++i) net[i].set_checkpointed(is_checkpointed);
      return net;
    };
    const auto run = [&](nn::Module& net, const std::vector<Tensor>& parameters) {
      optim::SGD sgd(parameters, {.lr = 0.1});
      Generator generator(static_cast<std::uint64_t>(group.rank()));
      const DefaultGenerator scope(generator);
      for (int step = 0; step < 3; ++step) {
        Tensor loss;
        {
          const Autocast autocast(DType::bf16);
          loss = mean(net(randn({4, 16})));
        }
        loss.backward();
        sgd.step();
        sgd.zero_grad();
      }
      return elements(flat(net));
    };
    auto reference = make();
    const dist::DataParallel parallel(reference, group);
    const auto expected = run(reference, reference.parameters());
    const std::size_t before = test::held_as(Role::autocast_copy);
    for (const Shard shard : all_shards) {
      auto net = make();
      const Sharded sharded(net, group, {.shard = shard, .row_bytes = 1000, .gathered_bytes = 0});
      EXPECT_EQ(run(net, sharded.parameters()), expected);
      const bool is_whole = group.size() == 1 || shard != Shard::parameters;
      EXPECT_EQ(test::held_as(Role::autocast_copy) > before, is_whole);
    }
  }
}

/// Returns the colours of a split into groups of `size` ranks, of which the last one may be smaller.
std::vector<int> colours(const Group& group, int size) {
  std::vector<int> all;
  for (int r = 0; r < group.size(); ++r) all.push_back(r / size);
  return all;
}

TEST(Sharded, ResumesOnAnotherNumberOfRanks) {
  const Group all = world();
  const auto step = [&](Net& net, optim::Optimizer& optimizer, int i) {
    const auto batch = joined(i, 1);  // equal on all ranks, so that any number of them has the same average
    cross_entropy(net(batch.first), batch.second).backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  const auto alone = make_net();
  optim::Adam of_alone(alone->parameters());
  for (int i = 0; i < 6; ++i) step(*alone, of_alone, i);

  StateDict optimizer_state;
  nn::NamedTensors values;
  int begin = 0;
  for (const auto& [size, shard] : {std::pair{4, Shard::parameters}, {2, Shard::gradients}, {1, Shard::parameters}}) {
    const Group group = all.split(colours(all, size));
    const auto net = make_net(static_cast<std::uint64_t>(begin));
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000});
    optim::Adam adam(sharded.parameters());
    if (begin > 0) {
      net->load_state_dict(values);
      sharded.load_optimizer_state(adam, optimizer_state);
    } else {
      net->load_state_dict(make_net()->state_dict());
    }
    for (int i = begin; i < begin + 2; ++i) step(*net, adam, i);
    begin += 2;
    optimizer_state = sharded.optimizer_state(adam);
    values.clear();
    for (const auto& [name, x] : net->state_dict()) values.emplace_back(name, clone(x.detach()));
  }
  const bool is_power_of_2 = (all.size() & (all.size() - 1)) == 0;  // other averages round
  const auto expected = alone->state_dict();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(test::all_close(values[i].second, expected[i].second, 1e-12, 1e-12)) << values[i].first;
    if (!is_power_of_2) continue;
    EXPECT_EQ(elements(values[i].second), elements(expected[i].second)) << values[i].first;
  }
  const StateDict expected_state = of_alone.state_dict();
  ASSERT_EQ(optimizer_state.tensors.size(), expected_state.tensors.size());
  EXPECT_EQ(optimizer_state.numbers, expected_state.numbers);
  for (const auto& [name, x] : expected_state.tensors) {
    EXPECT_EQ(optimizer_state.tensor(name).shape(), x.shape()) << name;
    EXPECT_TRUE(test::all_close(optimizer_state.tensor(name), x, 1e-12, 1e-12)) << name;
  }
  optim::Adam resumed(alone->parameters());
  resumed.load_state_dict(optimizer_state);  // an optimizer of the unsharded module takes it
}

TEST(Sharded, RefusesAStateOfAnotherShape) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto net = make_net();
  const Sharded sharded(*net, group);
  optim::Adam adam(sharded.parameters());
  loss_of(*net, 0, group).backward();
  adam.step();
  StateDict state = sharded.optimizer_state(adam);
  for (auto& [name, x] : state.tensors)
    if (name == "state.0.exp_avg") x = zeros({2, 2}, DType::f64);
  EXPECT_THROWS_SAYING(sharded.load_optimizer_state(adam, state), ShapeError,
                       "'state.0.exp_avg' does not fit the parameter 'conv.weight'");
}

TEST(Sharded, NoticesThatAGraphIsOlderThanAStep) {
  const Group group = world();
  if (group.size() == 1) return;
  for (const Shard shard : all_shards) {
    const auto net = make_net();
    const Sharded sharded(*net, group, {.shard = shard});
    optim::SGD sgd(sharded.parameters(), {.lr = 0.1});
    const Tensor old = loss_of(*net, 0, group);
    loss_of(*net, 1, group).backward();
    sgd.step();
    EXPECT_THROWS_SAYING(old.backward(), AutogradError, "overwritten");
  }
}

TEST(Sharded, GoesOnAfterABackwardThatFailed) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    const auto net = make_net();
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 1, .gathered_bytes = 0});
    loss_of(*net, 0, group).backward();
    std::vector<std::vector<double>> expected;
    for (Tensor p : sharded.parameters()) {
      expected.push_back(elements(p.grad()));
      p.set_grad({});
    }
    const int hook = net->in.weight.register_hook([](const Tensor&) -> Tensor { throw ValueError("stop"); });
    EXPECT_THROWS_SAYING(loss_of(*net, 0, group).backward(), ValueError, "stop");
    net->in.weight.remove_hook(hook);
    for (Tensor p : sharded.parameters()) p.set_grad({});
    loss_of(*net, 0, group).backward();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(elements(sharded.parameters()[i].grad()), expected[i]);
  }
}

TEST(Sharded, LeavesParametersThatCanBeUsed) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    const auto net = make_net();
    const auto expected = elements(flat(*net));
    { const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000}); }
    EXPECT_EQ(elements(flat(*net)), expected);
    loss_of(*net, 0, group).backward();
    EXPECT_TRUE(net->in.weight.grad().defined());
    EXPECT_EQ(net->in.weight.data<double>()[0], elements(net->in.weight)[0]);
  }
}

TEST(Sharded, SharesNothingInAGroupOfOne) {
  const auto net = make_net();
  const Group alone = world().split(colours(world(), 1));
  const Sharded sharded(*net, alone);
  const auto named = net->named_parameters(), parts = sharded.named_parameters();
  ASSERT_EQ(parts.size(), named.size());
  for (std::size_t i = 0; i < named.size(); ++i) EXPECT_TRUE(parts[i].second.is_same(named[i].second));
  loss_of(*net, 0, alone).backward();
  EXPECT_EQ(test::held_as(Role::communication), 0u);
  EXPECT_EQ(sharded.clip_grad_norm_(1).item<double>(), optim::clip_grad_norm_(net->parameters(), 1e9).item<double>());
}

TEST(Sharded, RefusesBadInput) {
  const Group group = world();
  const auto net = make_net();
  EXPECT_THROWS_SAYING(Sharded(*net, group, {.row_bytes = 0}), ValueError, "row_bytes");
  nn::ReLU nothing;
  EXPECT_THROWS_SAYING(Sharded(nothing, group), ValueError, "no parameter");
  if (group.size() == 1) return;
  optim::SGD of_module(net->parameters(), {.lr = 0.1});
  const Sharded sharded(*net, group);
  EXPECT_THROWS_SAYING(of_module.step(), ValueError, "make the optimizer from parameters() of its dist::Sharded");
  const auto penalty = [&] {
    const Tensor p = sharded.parameters()[0];
    (loss_of(*net, 0, group) + sum(p * p)).backward();
  };
  EXPECT_THROWS_SAYING(penalty(), AutogradError, "the loss uses a part");
  EXPECT_THROWS_SAYING(Sharded(*net, group), ValueError, "'conv.weight' is in another Sharded or DataParallel");
  optim::SGD sgd(sharded.parameters(), {.lr = 0.1});
  EXPECT_THROWS_SAYING(const optim::StepInBackward steps(sgd), ValueError, "parts of a dist::Sharded");
  EXPECT_THROWS_SAYING(loss_of(*net, 0, group).backward({}, false, true), NotImplemented, "create_graph");
}

/// Everything that a rank holds, from nothing.
std::function<void()> training(std::shared_ptr<std::function<void()>>& keep, const ShardedOptions& options) {
  const Group group = dist::init(std::chrono::seconds(60));
  struct State {
    std::unique_ptr<Net> net;
    std::unique_ptr<Sharded> sharded;
    std::unique_ptr<optim::Adam> adam;
  };
  auto state = std::make_shared<State>();
  state->net = std::make_unique<Net>();
  state->sharded = std::make_unique<Sharded>(*state->net, group, options);
  state->net->uses_extra = !options.allow_unused;
  state->adam = std::make_unique<optim::Adam>(state->sharded->parameters());
  keep = std::make_shared<std::function<void()>>([state] {
    const memory::Step step;
    const Tensor x = randn({per_rank, 1, 4, 4}, DType::f32, default_device(), default_generator(), Role::input);
    const Tensor t = randint(0, 8, {per_rank}, DType::i64, default_device(), default_generator(), Role::input);
    cross_entropy((*state->net)(x), t).backward();
    state->sharded->clip_grad_norm_(1);
    state->adam->step();
    state->adam->zero_grad();
  });
  return *keep;
}

TEST(Sharded, IsPredictedEventByEventForEachRank) {
  const Group group = world();
  set_num_threads(1);
  for (const Shard shard : all_shards)
    for (const bool allow_unused : {false, true}) {
      const ShardedOptions options{shard, 1000, 1000, allow_unused};
      const auto real = test::record_events({}, [&](Device) {
        std::shared_ptr<std::function<void()>> keep;
        const auto step = training(keep, options);
        for (int i = 0; i < 3; ++i) step();
      });
      const auto program = [&] {
        std::shared_ptr<std::function<void()>> keep;
        return training(keep, options);
      };
      const auto simulated =
          memory::predict({}, program, {.max_steps = 3, .world_size = group.size(), .rank = group.rank()});
      const auto& events = simulated.snapshot.events;
      ASSERT_LE(events.size(), real.size());  // the real program also frees its memory
      const std::vector<memory::Event> same(real.begin(), real.begin() + static_cast<std::ptrdiff_t>(events.size()));
      EXPECT_EQ(test::first_difference(same, events), "");
      EXPECT_TRUE(simulated.is_settled());
    }
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
