#include "bytetape/distributed/data_parallel.h"

#include <functional>
#include <memory>
#include <optional>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/distributed/net.h"
#include "tests/distributed/predicted.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using dist::DataParallel;
using dist::Group;
using test::elements;
using test::expect_equal_on_all_ranks;
using test::flat;
using test::joined;
using test::make_net;
using test::Net;
using test::part;
using test::per_rank;
using test::world;

TEST(DataParallel, TrainsAsOneProcessOnTheJoinedBatch) {
  const Group group = world();
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{2000}, std::size_t{25} << 20}) {
    const auto alone = make_net();
    const auto net = make_net(static_cast<std::uint64_t>(5 + group.rank()));  // rank 0 has alone's values
    const DataParallel parallel(*net, group, {.bucket_bytes = bucket_bytes});
    optim::SGD of_alone(alone->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::SGD of_net(net->parameters(), {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < 20; ++step) {
      const auto batch = joined(step, group.size());
      const Tensor &x = batch.first, &t = batch.second;
      cross_entropy((*alone)(x), t).backward();
      cross_entropy((*net)(part(x, group.rank())), part(t, group.rank())).backward();
      optim::clip_grad_norm_(alone->parameters(), 0.5);
      optim::clip_grad_norm_(net->parameters(), 0.5);
      of_alone.step();
      of_net.step();
      of_alone.zero_grad();
      of_net.zero_grad();
    }
    EXPECT_TRUE(test::all_close(flat(*net), flat(*alone), 1e-12, 1e-12));
    expect_equal_on_all_ranks(*net, group);
    EXPECT_EQ(parallel.bucket_count() > 1, bucket_bytes < 3000 && group.size() > 1);
    EXPECT_TRUE(parallel.unused().empty());
  }
}

TEST(DataParallel, HasTheSameBitsInTwentyRuns) {
  const Group group = world();
  const auto train = [&] {
    const auto net = make_net(5, DType::f32);
    const DataParallel parallel(*net, group, {.bucket_bytes = 1000});
    optim::Adam adam(net->parameters());
    for (int step = 0; step < 3; ++step) {
      const auto batch = joined(step, group.size());
      const Tensor &x = batch.first, &t = batch.second;
      cross_entropy((*net)(to(part(x, group.rank()), DType::f32)), part(t, group.rank())).backward();
      adam.step();
      adam.zero_grad();
    }
    return elements(flat(*net));
  };
  const auto first = train();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(train(), first);
}

TEST(DataParallel, ExchangesAccumulatedGradientsOnce) {
  const Group group = world();
  const auto alone = make_net(), net = make_net();
  const DataParallel parallel(*net, group, {.bucket_bytes = 1000});
  for (int step = 0; step < 3; ++step) {
    const auto batch = joined(step, group.size());
    const Tensor &x = batch.first, &t = batch.second;
    cross_entropy((*alone)(x), t).backward();
    const auto loss = [&] { return cross_entropy((*net)(part(x, group.rank())), part(t, group.rank())); };
    if (step < 2) {
      const dist::NoSync local(parallel);
      loss().backward();
    } else {
      loss().backward();
    }
  }
  const auto expected = alone->parameters(), found = net->parameters();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(test::all_close(found[i].grad(), expected[i].grad(), 1e-12, 1e-12)) << i;
}

TEST(DataParallel, NamesParametersWithoutAGradient) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto net = make_net();
  const DataParallel parallel(*net, group);
  net->uses_extra = false;
  const auto batch = joined(0, group.size());
  const Tensor &x = batch.first, &t = batch.second;
  const auto loss = [&] { return cross_entropy((*net)(part(x, group.rank())), part(t, group.rank())); };
  EXPECT_THROWS_SAYING(loss().backward(), AutogradError, "no gradient of 'extra.bias'; if that is intended");
  EXPECT_EQ(parallel.unused(), (std::vector<std::string>{"extra.bias"}));
  net->uses_extra = true;
  net->zero_grad();
  loss().backward();  // goes on
  EXPECT_TRUE(parallel.unused().empty());
}

TEST(DataParallel, TakesParametersThatRanksLeaveOut) {
  const Group group = world();
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{25} << 20}) {
    const auto net = make_net(), reference = make_net();
    const DataParallel parallel(*net, group, {.bucket_bytes = bucket_bytes, .allow_unused = true});
    for (int step = 0; step < 4; ++step) {
      // The last rank, all ranks, no rank, and the last rank leave it out.
      const auto leaves_out = [&](int rank) { return step == 1 || (step % 3 == 0 && rank == group.size() - 1); };
      net->zero_grad();
      reference->zero_grad();
      const auto batch = joined(step, group.size());
      const Tensor &x = batch.first, &t = batch.second;
      net->uses_extra = !leaves_out(group.rank());
      cross_entropy((*net)(part(x, group.rank())), part(t, group.rank())).backward();
      for (int r = 0; r < group.size(); ++r) {
        reference->uses_extra = !leaves_out(r);
        (cross_entropy((*reference)(part(x, r)), part(t, r)) / static_cast<double>(group.size())).backward();
      }
      EXPECT_EQ(parallel.unused().empty(), group.size() == 1 || !leaves_out(group.rank()));
      const bool is_used = step == 2 || (step != 1 && group.size() > 1);
      EXPECT_EQ(net->extra.bias.grad().defined(), is_used) << step;
      const auto found = net->parameters(), expected = reference->parameters();
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].grad().defined(), expected[i].grad().defined()) << step << " " << i;
        if (!found[i].grad().defined()) continue;
        EXPECT_TRUE(test::all_close(found[i].grad(), expected[i].grad())) << step;
      }
    }
  }
}

TEST(DataParallel, GoesOnAfterABackwardThatFailed) {
  const Group group = world();
  const auto net = make_net();
  const DataParallel parallel(*net, group, {.bucket_bytes = 1});
  const auto batch = joined(0, group.size());
  const Tensor &x = batch.first, &t = batch.second;
  const auto loss = [&] { return cross_entropy((*net)(part(x, group.rank())), part(t, group.rank())); };
  loss().backward();
  const auto expected = elements(net->in.weight.grad());
  net->zero_grad();
  const int hook = net->in.weight.register_hook([](const Tensor&) -> Tensor { throw ValueError("stop"); });
  EXPECT_THROWS_SAYING(loss().backward(), ValueError, "stop");
  net->in.weight.remove_hook(hook);
  net->zero_grad();
  loss().backward();
  EXPECT_EQ(elements(net->in.weight.grad()), expected);
}

TEST(DataParallel, DoesNothingInAGroupOfOne) {
  const auto net = make_net();
  const DataParallel parallel(*net, world().split([] {
    std::vector<int> colours;
    for (int r = 0; r < world().size(); ++r) colours.push_back(r);
    return colours;
  }()));
  const auto batch = joined(0, 1);
  const Tensor &x = batch.first, &t = batch.second;
  cross_entropy((*net)(x), t).backward();
  EXPECT_EQ(parallel.bucket_count(), 0u);
  EXPECT_EQ(test::held_as(memory::Role::communication), 0u);
  EXPECT_GT(test::held_as(memory::Role::gradient), 0u);
}

TEST(DataParallel, HoldsGradientsInBucketsOfTheirRole) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto net = make_net();
  const std::size_t before = test::held_as(memory::Role::communication);
  std::size_t bytes = 0;
  for (const Tensor& p : net->parameters()) bytes += p.nbytes();
  {
    const DataParallel parallel(*net, group);
    const auto batch = joined(0, group.size());
    const Tensor &x = batch.first, &t = batch.second;
    for (int step = 0; step < 3; ++step) {
      cross_entropy((*net)(part(x, group.rank())), part(t, group.rank())).backward();
      EXPECT_EQ(test::held_as(memory::Role::gradient), 0u);
      for (const memory::Block& b : memory::allocator(Device()).blocks())
        EXPECT_TRUE(b.role != memory::Role::communication || b.module == 0);
      const std::size_t held = test::held_as(memory::Role::communication) - before;
      EXPECT_GE(held, bytes);
      EXPECT_LT(held, bytes + 128 * net->parameters().size() + memory::rounding);
      if (step == 1) net->zero_grad();
      EXPECT_EQ(test::held_as(memory::Role::communication) - before, held);
    }
    net->zero_grad();
  }
  EXPECT_EQ(test::held_as(memory::Role::communication), before);
}

TEST(DataParallel, HasSmallBucketsAtTheEnd) {
  const Group group = world();
  if (group.size() == 1) return;
  nn::Sequential net;
  for (int i = 0; i < 8; ++i) net.push_back(nn::Linear(512, 512));  // 1 MiB each
  const DataParallel parallel(net, group);
  sum(net(randn({1, 512}))).backward();
  constexpr std::size_t MiB = 1 << 20;
  const auto bytes = parallel.bucket_bytes();
  ASSERT_EQ(bytes.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_LE(bytes[i], (8 >> i) * MiB + 4096);  // with gaps
  EXPECT_EQ(parallel.bucket_count(), 4u);
}

/// The gradients of rank `r`'s part of a batch.
std::vector<Tensor> gradients_of(Net& net, const std::pair<Tensor, Tensor>& batch, int r) {
  net.zero_grad();
  cross_entropy(net(to(part(batch.first, r), DType::f32)), part(batch.second, r)).backward();
  std::vector<Tensor> all;
  for (const Tensor& p : net.parameters()) all.push_back(clone(p.grad()));
  return all;
}

TEST(DataParallel, ExchangesIn16Bits) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto alone = make_net(5, DType::f32), net = make_net(5, DType::f32);
  const DataParallel parallel(*net, group, {.bucket_bytes = 1000, .exchange_dtype = DType::bf16});
  for (int step = 0; step < 3; ++step) {
    const auto batch = joined(step, group.size());
    const auto later = joined(step + 10, group.size());
    const bool accumulates = step == 2;  // then the sum of both is rounded
    std::vector<std::vector<Tensor>> of_ranks;
    for (int r = 0; r < group.size(); ++r) {
      of_ranks.push_back(gradients_of(*alone, batch, r));
      const auto more = gradients_of(*alone, later, r);
      for (std::size_t i = 0; accumulates && i < more.size(); ++i) of_ranks.back()[i] += more[i];
    }
    net->zero_grad();
    const auto backward = [&](const std::pair<Tensor, Tensor>& b) {
      cross_entropy((*net)(to(part(b.first, group.rank()), DType::f32)), part(b.second, group.rank())).backward();
    };
    if (accumulates) {
      const dist::NoSync scope(parallel);
      backward(batch);
      EXPECT_EQ(elements(net->parameters()[0].grad()),
                elements(gradients_of(*alone, batch, group.rank())[0]));  // not rounded
    }
    backward(accumulates ? later : batch);
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      std::vector<Tensor> low;
      for (const auto& gradients : of_ranks) low.push_back(to(gradients[i], DType::bf16));
      const Tensor g = net->parameters()[i].grad();
      EXPECT_EQ(g.dtype(), DType::f32);
      Tensor average = to(low[0], DType::f32);
      for (std::size_t r = 1; r < low.size(); ++r) average = average + to(low[r], DType::f32);
      average = to(to(average / static_cast<double>(low.size()), DType::bf16), DType::f32);
      EXPECT_EQ(elements(g), elements(average)) << "parameter " << i << " in step " << step;
    }
  }
}

/// Leaves that a backward uses in any order.
struct Leaves : nn::Module {
  Tensor a = ones({4}), b = ones({4}), c = ones({4});
  Leaves() {
    register_parameter("a", a);
    register_parameter("b", b);
    register_parameter("c", c);
  }
};

TEST(DataParallel, CopiesGradientsThatShareMemory) {
  const Group group = world();
  Leaves net;
  const DataParallel parallel(net, group);
  const Tensor scratch = zeros({4});  // one gradient for all, overwritten each time
  double value = 0;
  for (const Tensor& x : {net.a, net.b, net.c})
    x.register_hook([&](const Tensor&) { return copy_(scratch, full({4}, ++value, DType::f32)); });
  sum(net.a + net.b + net.c).backward();
  const double all = net.a.grad()[0].item<float>() + net.b.grad()[0].item<float>() + net.c.grad()[0].item<float>();
  EXPECT_EQ(all, 1 + 2 + 3);
}

TEST(DataParallel, TakesGradientsOfOtherLayouts) {
  const Group group = world();
  const Tensor factors = test::make_tensor({0, 3, 1, 4, 2, 5}, {3, 2}, DType::f32) + group.rank();
  std::vector<double> expected;
  for (int i = 0; i < 6; ++i) expected.push_back(i + (group.size() - 1) / 2.0);
  for (const DType sent : {DType::f32, DType::bf16}) {
    nn::Linear net(3, 2, false);
    const DataParallel parallel(net, group, {.exchange_dtype = sent});
    sum(transpose(net.weight, 0, 1) * factors).backward();  // the gradient is a row-major matrix, transposed
    EXPECT_EQ(elements(net.weight.grad()), expected) << sent;
  }
}

TEST(DataParallel, KeepsAGradientThatIsWrittenInPlaceElsewhere) {
  const Group group = world();
  Leaves net;
  const DataParallel parallel(net, group);
  const Tensor x = net.a * 1.;
  x.register_hook([](const Tensor& g) -> Tensor {
    const NoGrad no_grad;
    zero_(g.detach());
    return {};
  });
  sum((x + net.b) * full({4}, 1., DType::f32) + net.c).backward();  // x and b have one gradient, and b's comes first
  EXPECT_EQ(elements(net.a.grad()), std::vector<double>(4, 0));
  EXPECT_EQ(elements(net.b.grad()), std::vector<double>(4, 1));
}

TEST(DataParallel, KeepsNoValueOfTheLastStepAfterAFailure) {
  const Group group = world();
  for (const DType sent : {DType::f32, DType::bf16}) {
    Leaves net;
    const DataParallel parallel(net, group, {.bucket_bytes = 1, .exchange_dtype = sent});
    sum(net.a * 100. * net.b * net.c).backward();  // a is last
    net.zero_grad();
    const int hook = net.c.register_hook([](const Tensor&) -> Tensor { throw ValueError("stop"); });
    const auto loss = [&] { return sum(net.c * 1. * net.b * (net.a * 1.)); };  // a is first, and waits for c
    EXPECT_THROW(loss().backward(), ValueError);
    net.c.remove_hook(hook);
    for (const Tensor& x : net.parameters())
      EXPECT_TRUE(!x.grad().defined() || elements(x.grad()) == std::vector<double>(4, 1));
    net.zero_grad();
    loss().backward();
    for (const Tensor& x : net.parameters()) EXPECT_EQ(elements(x.grad()), std::vector<double>(4, 1));
  }
}

TEST(DataParallel, RefusesAParameterOfAnother) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto net = make_net();
  const DataParallel parallel(*net, group);
  EXPECT_THROWS_SAYING(DataParallel(*net, group), ValueError, "'conv.weight' is in another DataParallel");
}

TEST(DataParallel, StartsWithTheBuffersOfRank0) {
  const Group group = world();
  nn::BatchNorm2d norm(3);
  fill_(norm.running_mean, group.rank() + 1.0);
  norm.to(DType::f64);
  const DataParallel parallel(norm, group);
  EXPECT_EQ(elements(norm.running_mean), (std::vector<double>{1, 1, 1}));
}

TEST(DataParallel, RefusesGradientsThatAnotherHookClears) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto net = make_net();
  optim::SGD sgd(net->parameters(), {.lr = 0.1});
  const optim::StepInBackward steps(sgd);
  const DataParallel parallel(*net, group);
  const auto batch = joined(0, group.size());
  const Tensor loss = cross_entropy((*net)(part(batch.first, 0)), part(batch.second, 0));
  EXPECT_THROWS_SAYING(loss.backward(), AutogradError, "another hook has cleared the gradient of 'out.bias'");
}

TEST(DataParallel, RefusesGradientsThatALaterHookUses) {
  const Group group = world();
  if (group.size() == 1) return;
  const auto net = make_net();
  optim::SGD sgd(net->parameters(), {.lr = 0.1});
  const DataParallel parallel(*net, group);
  const optim::StepInBackward steps(sgd);
  const auto batch = joined(0, group.size());
  const Tensor loss = cross_entropy((*net)(part(batch.first, 0)), part(batch.second, 0));
  EXPECT_THROWS_SAYING(loss.backward(), AutogradError, "another hook has cleared the gradient of 'out.bias'");
}

TEST(DataParallel, ExchangesAGradientThatTheUserSet) {
  const Group group = world();
  const auto net = make_net();
  const DataParallel parallel(*net, group, {.allow_unused = true});
  const auto batch = joined(0, group.size());
  const auto loss = [&] { return cross_entropy((*net)(part(batch.first, 0)), part(batch.second, 0)); };
  loss().backward();
  net->zero_grad();
  net->uses_extra = false;
  net->extra.bias.set_grad(full({8}, group.rank() + 1.0, DType::f64));
  loss().backward();
  EXPECT_EQ(elements(net->extra.bias.grad()), std::vector<double>(8, (group.size() + 1) / 2.0));
}

TEST(DataParallel, HasNoHooksOnceItIsDestroyed) {
  const Group group = world();
  const auto net = make_net();
  { const DataParallel parallel(*net, group); }
  const auto batch = joined(0, group.size());
  cross_entropy((*net)(part(batch.first, 0)), part(batch.second, 0)).backward();
  EXPECT_EQ(test::held_as(memory::Role::communication), 0u);
}

TEST(DataParallel, OrdersBucketsAsRank0) {
  const Group group = world();
  nn::Linear a(3, 3), b(3, 3);
  nn::Sequential both(std::move(a), std::move(b));
  both.to(DType::f64);
  for (const Tensor& p : both.parameters()) fill_(p.detach(), 0.5);
  const DataParallel parallel(both, group);
  const auto first = [&](int rank) { return both[static_cast<std::size_t>(rank % 2)].parameters()[0]; };
  const auto second = [&](int rank) { return both[static_cast<std::size_t>(1 - rank % 2)].parameters()[0]; };
  const auto bias = [&](int i) { return both[static_cast<std::size_t>(i)].parameters()[1]; };
  const auto loss = [&](int rank) {
    return sum(first(rank) * (rank + 1.0)) + sum(second(rank) * 10) + sum(bias(0)) + sum(bias(1) * 2);
  };
  loss(group.rank()).backward();
  std::vector<double> expected(2, 0.0);
  for (int r = 0; r < group.size(); ++r) {
    expected[static_cast<std::size_t>(r % 2)] += (r + 1.0) / group.size();
    expected[static_cast<std::size_t>(1 - r % 2)] += 10.0 / group.size();
  }
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(test::all_close(elements(both[static_cast<std::size_t>(i)].parameters()[0].grad()),
                                std::vector<double>(9, expected[static_cast<std::size_t>(i)])));
}

TEST(DataParallel, RefusesBadInput) {
  const Group group = world();
  const auto net = make_net();
  EXPECT_THROWS_SAYING(DataParallel(*net, group, {.bucket_bytes = 0}), ValueError, "bucket_bytes");
  nn::ReLU nothing;
  EXPECT_THROWS_SAYING(DataParallel(nothing, group), ValueError, "no parameter");
  EXPECT_THROWS_SAYING(DataParallel(*net, group, {.exchange_dtype = DType::f64}), DTypeError, "got f64");
  if (group.size() == 1) return;
  const DataParallel parallel(*net, group);
  const auto batch = joined(0, group.size());
  const Tensor &x = batch.first, &t = batch.second;
  const auto loss = [&](DType dtype) { return cross_entropy((*net)(to(part(x, 0), dtype)), part(t, 0)); };
  EXPECT_THROWS_SAYING(loss(DType::f64).backward({}, false, true), NotImplemented, "create_graph");
  net->zero_grad();
  loss(DType::f64).backward();
  net->zero_grad();
  net->to(DType::f32);
  EXPECT_THROWS_SAYING(loss(DType::f32).backward(), AutogradError, "was moved or converted to f32");
}

/// Makes a program, and returns its step.
std::function<void()> training(bool allow_unused) {
  struct State {
    Net net;
    std::optional<DataParallel> parallel;
    std::optional<optim::Adam> adam;
  };
  auto state = std::make_shared<State>();
  state->parallel.emplace(state->net, world(),
                          dist::DataParallelOptions{.bucket_bytes = 1000, .allow_unused = allow_unused});
  state->net.uses_extra = !allow_unused;
  state->adam.emplace(state->net.parameters());
  return [state] {
    const memory::Step step;
    const auto [x, t] = test::random_batch();
    cross_entropy(state->net(x), t).backward();
    state->adam->step();
    state->adam->zero_grad();
  };
}

TEST(DataParallel, IsPredictedEventByEventForEachRank) {
  for (const bool allow_unused : {false, true}) test::expect_predicted([&] { return training(allow_unused); });
}

TEST(DataParallel, MayBePredictedByOneRankAlone) {
  const Group group = world();
  const auto program = [] { return training(false); };
  if (group.rank() == 0) {
    EXPECT_TRUE(memory::predict({}, program).is_settled());
    EXPECT_TRUE(memory::predict({}, program, {.world_size = 5, .rank = 4}).is_settled());
  }
  const auto net = make_net();
  const DataParallel parallel(*net, group);
  const auto batch = joined(0, group.size());
  cross_entropy((*net)(part(batch.first, 0)), part(batch.second, 0)).backward();
}

}  // namespace
}  // namespace bytetape
