#include "bytetape/distributed/sharded.h"

#include <limits>
#include <memory>

#include "bytetape/bytetape.h"
#include "tests/distributed/net.h"
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
using test::colours;
using test::elements;
using test::flat;
using test::loss_of;
using test::make_net;
using test::Net;
using test::world;

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

TEST(Sharded, MayNameTheDeviceThatTheModelIsOn) {
  const Group group = world();
  const auto reference = make_net(), net = make_net();
  const dist::DataParallel parallel(*reference, group);
  const Sharded sharded(*net, group, {.row_bytes = 2000, .device = Device::cpu()});
  EXPECT_EQ(train(*net, sharded.parameters(), group, DType::f64),
            train(*reference, reference->parameters(), group, DType::f64));
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

TEST(Sharded, TakesGradientsOfOtherLayouts) {
  const Group group = world();
  const Tensor factors = test::make_tensor({0, 3, 1, 4, 2, 5}, {3, 2}, DType::f32) + group.rank();
  std::vector<double> expected;
  for (int i = 0; i < 6; ++i) expected.push_back(-i - (group.size() - 1) / 2.0);
  for (const Shard shard : all_shards) {
    nn::Linear net(3, 2, false);
    nn::init::zeros_(net.weight);
    const Sharded sharded(net, group, {.shard = shard});
    optim::SGD sgd(sharded.parameters(), {.lr = 1});
    sum(transpose(net.weight, 0, 1) * factors).backward();  // the gradient is a row-major matrix, transposed
    sgd.step();
    EXPECT_EQ(elements(flat(net)), expected) << static_cast<int>(shard);
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
  EXPECT_THROWS_SAYING(of_module.step(), ValueError, "make the optimizer from dist::Sharded's parameters()");
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

}  // namespace
}  // namespace bytetape
