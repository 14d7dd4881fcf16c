// Optimizers of a Sharded: clipping, gradient scalers, averages and states.
#include "bytetape/distributed/sharded.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/distributed/net.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using dist::Group;
using dist::Shard;
using dist::Sharded;
using test::all_shards;
using test::colours;
using test::elements;
using test::flat;
using test::joined;
using test::loss_of;
using test::make_net;
using test::Net;
using test::world;

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

TEST(Sharded, AveragesTheModuleOrTheParts) {
  const Group group = world();
  for (const Shard shard : all_shards) {
    const auto net = make_net(), reference = make_net();
    const dist::DataParallel parallel(*reference, group);
    const Sharded sharded(*net, group, {.shard = shard, .row_bytes = 2000, .gathered_bytes = 0});
    optim::SGD sgd(sharded.parameters(), {.lr = 0.1}), of_reference(reference->parameters(), {.lr = 0.1});
    optim::EMA ema(*net, {.decay = 0.5}), of_parts(sharded.parameters(), {.decay = 0.5}),
        expected(*reference, {.decay = 0.5});
    for (int step = 0; step < 3; ++step) {
      loss_of(*net, step, group).backward();
      loss_of(*reference, step, group).backward();
      sgd.step();
      of_reference.step();
      ema.update();
      of_parts.update();
      expected.update();
      sgd.zero_grad();
      of_reference.zero_grad();
    }
    expected.swap();
    ema.swap();
    EXPECT_EQ(elements(flat(*net)), elements(flat(*reference)));
    ema.swap();
    of_parts.swap();
    sharded.note_written();
    EXPECT_EQ(elements(flat(*net)), elements(flat(*reference)));
  }
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

}  // namespace
}  // namespace bytetape
