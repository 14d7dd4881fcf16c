// The ranks of GPUs: by NCCL if each rank has one, else by way of the host.
#include <chrono>
#include <thread>

#include "bytetape/autograd/capture.h"
#include "bytetape/bytetape.h"
#include "tests/distributed/ranks.h"
#include "tests/support/device.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using dist::DataParallel;
using dist::Group;
using test::elements;
using test::values_of_all;
using test::world;

/// This rank's GPU. Ranks share GPUs if there are too few.
Device own_gpu() { return Device::cuda(dist::local_rank() % std::max(1, cuda::device_count())); }
/// Whether NCCL connects the ranks, so that steps can be captured.
bool is_nccl(const Group& group) { return group.size() > 1 && cuda::device_count() >= group.size(); }

class GpuRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::is_available(own_gpu())) GTEST_SKIP() << "no CUDA device can be used";
  }
};

TEST_F(GpuRanks, CollectivesAgreeWithTheCpu) {
  const Group group = world();
  const auto here = static_cast<std::size_t>(group.rank());
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    for (const Shape& shape : {Shape{0}, Shape{24}, Shape{24, 1031}}) {
      const Tensor x = values_of_all(group, shape, dtype)[here], on_gpu = to(x, own_gpu());
      const double tolerance = !is_floating(dtype)   ? 0
                               : size_of(dtype) == 2 ? 2e-2
                               : size_of(dtype) == 4 ? 1e-6
                                                     : 1e-14;
      const auto agree = [&](const Tensor& a, const Tensor& b) {
        EXPECT_EQ(b.device(), own_gpu());
        return test::all_close(to(to(b, Device()), DType::f64), to(a, DType::f64), tolerance, tolerance);
      };
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
        if (op == ReduceOp::average && !is_floating(dtype)) continue;
        EXPECT_TRUE(agree(dist::all_reduce(x, group, op), dist::all_reduce(on_gpu, group, op))) << name_of(op) << dtype;
        EXPECT_TRUE(agree(dist::reduce_scatter(x, group, op), dist::reduce_scatter(on_gpu, group, op))) << dtype;
      }
      EXPECT_TRUE(agree(dist::all_gather(x, group), dist::all_gather(on_gpu, group))) << dtype;
      EXPECT_TRUE(agree(dist::all_to_all(x, group), dist::all_to_all(on_gpu, group))) << dtype;
      for (int root = 0; root < group.size(); ++root)
        EXPECT_TRUE(agree(dist::broadcast(x, group, root), dist::broadcast(on_gpu, group, root))) << dtype;
    }
}

TEST_F(GpuRanks, TakeViewsInPlace) {
  const Group group = world();
  const auto all = values_of_all(group, {6, 9});
  const auto gaps = [](const Tensor& x) { return narrow(transpose(x, 0, 1), 0, 1, 7); };
  const Tensor on_cpu = clone(all[static_cast<std::size_t>(group.rank())]), on_gpu = to(on_cpu, own_gpu());
  dist::all_reduce_(gaps(on_cpu), group, ReduceOp::max);
  dist::all_reduce_(gaps(on_gpu), group, ReduceOp::max);
  EXPECT_EQ(elements(on_gpu), elements(on_cpu));
  dist::broadcast_(gaps(on_gpu), group, group.size() - 1);
  dist::broadcast_(gaps(on_cpu), group, group.size() - 1);
  EXPECT_EQ(elements(on_gpu), elements(on_cpu));
}

TEST_F(GpuRanks, SendAroundARing) {
  const Group group = world();
  if (group.size() == 1) GTEST_SKIP() << "needs several ranks";
  const int next = (group.rank() + 1) % group.size(), last = (group.rank() + group.size() - 1) % group.size();
  const Tensor mine = full({1000}, static_cast<double>(group.rank()), DType::f32, own_gpu());
  const Tensor theirs = empty({1000}, DType::f32, own_gpu());
  if (group.rank() % 2 == 0) dist::send(mine, group, next);
  dist::recv_(theirs, group, last);
  if (group.rank() % 2 == 1) dist::send(mine, group, next);
  EXPECT_EQ(elements(theirs), elements(full({1000}, static_cast<double>(last), DType::f32)));
}

/// A network with batch statistics, so that the step has buffers and several kinds of kernels.
std::unique_ptr<nn::Sequential> make_net(DType dtype) {
  Generator generator(5);
  const DefaultGenerator scope(generator);
  auto net = std::make_unique<nn::Sequential>(nn::Conv2d(1, 8, 3, {.padding = 1}), nn::ReLU(), nn::Flatten(),
                                              nn::Linear(8 * 16, 32), nn::ReLU(), nn::Linear(32, 8));
  net->to(own_gpu());
  net->to(dtype);
  return net;
}

constexpr std::int64_t per_rank = 4;
data::Batch joined(int step, int ranks, DType dtype) {
  Generator generator(static_cast<std::uint64_t>(100 + step));
  const std::int64_t n = per_rank * ranks;
  const Tensor x = randn({n, 1, 4, 4}, DType::f64, Device(), generator);
  const Tensor t = randint(0, 8, {n}, DType::i64, Device(), generator);
  return {to(to(x, dtype), own_gpu()), to(t, own_gpu())};
}
Tensor part(const Tensor& x, int rank) { return contiguous(narrow(x, 0, per_rank * rank, per_rank)); }
Tensor flat(nn::Module& net) {
  const NoGrad no_grad;
  std::vector<Tensor> rows;
  for (const Tensor& p : net.parameters()) rows.push_back(reshape(p.detach(), {-1}));
  return cat(rows, 0);
}

/// Takes `steps` steps on this rank's parts of the batches. Returns the parameters. `clip` clips all gradients.
template <class Clip>
std::vector<double> take_steps(nn::Module& net, optim::Optimizer& optimizer, const Group& group, bool is_captured,
                               DType dtype, int steps, const Clip& clip) {
  const auto step = [&](const Tensor& x, const Tensor& t) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), t);
    loss.backward();
    clip(0.5);
    optimizer.step();
    return loss.detach();
  };
  auto captured = capture(step);
  for (int i = 0; i < steps; ++i) {
    const data::Batch batch = joined(i, group.size(), dtype);
    const Tensor x = part(batch.x, group.rank()), t = part(batch.y, group.rank());
    is_captured ? captured(x, t) : step(x, t);
  }
  EXPECT_EQ(captured.is_captured(), is_captured);
  return elements(flat(net));
}

/// The parameters after `steps` steps of data parallel training.
std::vector<double> train(const Group& group, bool is_captured, DType dtype, int steps,
                          std::size_t bucket_bytes = 2000) {
  const auto net = make_net(dtype);
  const DataParallel parallel(*net, group, {.bucket_bytes = bucket_bytes});
  optim::AdamW adam(net->parameters(), {.lr = 0.01});
  return take_steps(*net, adam, group, is_captured, dtype, steps,
                    [&](double norm) { optim::clip_grad_norm_(net->parameters(), norm); });
}

TEST_F(GpuRanks, TrainAsOneProcessOnTheJoinedBatch) {
  const Group group = world();
  const auto net = make_net(DType::f64);
  optim::AdamW adam(net->parameters(), {.lr = 0.01});
  for (int i = 0; i < 20; ++i) {
    const data::Batch batch = joined(i, group.size(), DType::f64);
    adam.zero_grad();
    cross_entropy((*net)(batch.x), batch.y).backward();
    optim::clip_grad_norm_(net->parameters(), 0.5);
    adam.step();
  }
  const auto alone = elements(flat(*net)), together = train(group, false, DType::f64, 20);
  for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(together[i], alone[i], 1e-12);
}

TEST_F(GpuRanks, HaveTheSameBitsInTwentyRunsAndOnEachRank) {
  const Group group = world();
  const auto first = train(group, false, DType::f32, 5);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(train(group, false, DType::f32, 5), first);
  const Tensor mine = from_vector(first, {static_cast<std::int64_t>(first.size())}, own_gpu());
  const Tensor all = reshape(dist::all_gather(mine, group), {group.size(), -1});
  for (int r = 0; r < group.size(); ++r) EXPECT_EQ(elements(all[r]), first) << "rank " << r;
}

TEST_F(GpuRanks, CapturedStepsEqualPlainOnes) {
  const Group group = world();
  if (group.size() > 1 && !is_nccl(group)) GTEST_SKIP() << "ranks share a GPU, so NCCL does not connect them";
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{2000}, std::size_t{25} << 20}) {
    const auto plain = train(group, false, DType::f32, 12, bucket_bytes);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(train(group, true, DType::f32, 12, bucket_bytes), plain) << bucket_bytes;
  }
}

/// The parameters after `steps` steps of sharded training.
std::vector<double> train_sharded(const Group& group, bool is_captured, DType dtype, int steps, dist::Shard shard,
                                  std::size_t gathered_bytes, std::optional<DType> parameter_dtype = {}) {
  const auto net = make_net(parameter_dtype ? DType::f32 : dtype);
  const dist::Sharded sharded(*net, group, {shard, 2000, gathered_bytes, false, parameter_dtype});
  optim::AdamW adam(sharded.parameters(), {.lr = 0.01});
  return take_steps(*net, adam, group, is_captured, dtype, steps, [&](double norm) { sharded.clip_grad_norm_(norm); });
}

TEST_F(GpuRanks, ShardedTrainAsDataParallel) {
  const Group group = world();
  const auto expected = train(group, false, DType::f64, 8);
  for (const dist::Shard shard : {dist::Shard::optimizer_state, dist::Shard::gradients, dist::Shard::parameters})
    for (const std::size_t gathered_bytes : {std::size_t{0}, std::size_t{50} << 20}) {
      const auto found = train_sharded(group, false, DType::f64, 8, shard, gathered_bytes);
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-12);
    }
}

TEST_F(GpuRanks, CapturedShardedStepsEqualPlainOnes) {
  const Group group = world();
  if (group.size() > 1 && !is_nccl(group)) GTEST_SKIP() << "ranks share a GPU, so NCCL does not connect them";
  for (const dist::Shard shard : {dist::Shard::optimizer_state, dist::Shard::gradients, dist::Shard::parameters})
    for (const std::size_t gathered_bytes : {std::size_t{0}, std::size_t{50} << 20}) {
      const auto plain = train_sharded(group, false, DType::f32, 12, shard, gathered_bytes);
      for (int i = 0; i < 3; ++i)
        ASSERT_EQ(train_sharded(group, true, DType::f32, 12, shard, gathered_bytes), plain) << static_cast<int>(shard);
      const auto narrow = train_sharded(group, false, DType::bf16, 12, shard, gathered_bytes, DType::bf16);
      ASSERT_EQ(train_sharded(group, true, DType::bf16, 12, shard, gathered_bytes, DType::bf16), narrow);
    }
}

TEST_F(GpuRanks, RefuseToCaptureAnExchangeByWayOfTheHost) {
  const Group group = world();
  if (group.size() == 1 || is_nccl(group)) GTEST_SKIP() << "needs ranks that share a GPU";
  EXPECT_THROWS_SAYING(train(group, true, DType::f32, 12), CaptureError, "by way of the host");
}

TEST_F(GpuRanks, ArePredictedEventByEvent) {
  const Group group = world();
  if (group.size() > 1 && !is_nccl(group)) GTEST_SKIP() << "staging is not predicted";
  struct State {
    std::unique_ptr<nn::Sequential> net = std::make_unique<nn::Sequential>(nn::Linear(100, 200), nn::Linear(200, 8));
    std::unique_ptr<DataParallel> parallel =
        std::make_unique<DataParallel>(*net, dist::init(), dist::DataParallelOptions{.bucket_bytes = 10000});
    std::unique_ptr<optim::Adam> adam = std::make_unique<optim::Adam>(net->parameters());
    void step() {
      const memory::Step step;
      const Tensor x = randn({7, 100}), t = randint(0, 8, {7});
      cross_entropy((*net)(x), t).backward();
      adam->step();
      adam->zero_grad();
    }
  };
  const auto real = test::record_events(own_gpu(), [](Device device) {
    const DefaultDevice scope(device);
    State state;
    for (int i = 0; i < 3; ++i) state.step();
  });
  const auto program = [] {
    auto state = std::make_shared<State>();
    return [state] { state->step(); };
  };
  const auto simulated =
      memory::predict(own_gpu(), program, {.max_steps = 3, .world_size = group.size(), .rank = group.rank()});
  const auto& events = simulated.snapshot.events;
  ASSERT_LE(events.size(), real.size());
  const std::vector<memory::Event> same(real.begin(), real.begin() + static_cast<std::ptrdiff_t>(events.size()));
  EXPECT_EQ(test::first_difference(same, events), "");
}

/// An embedding and a head. The loss is the sum of the outputs.
struct Tokens {
  nn::Sequential net{nn::Embedding(5, 4), nn::Linear(4, 3)};
  Tokens() { net.to(own_gpu()); }
  void backward(const std::vector<std::int64_t>& tokens) {
    const Tensor x = to(from_vector(tokens, {static_cast<std::int64_t>(tokens.size())}, Device()), own_gpu());
    sum(net(x)).backward();
  }
};

TEST_F(GpuRanks, SkipAStepTogetherIfOneRankHasAFault) {
  const Group group = world();
  if (group.size() > 1 && !is_nccl(group)) GTEST_SKIP() << "the copy to the host throws the fault within backward";
  for (const bool is_sharded : {false, true}) {
    Tokens tokens;
    std::optional<DataParallel> parallel;
    std::optional<dist::Sharded> sharded;
    is_sharded ? void(sharded.emplace(tokens.net, group)) : void(parallel.emplace(tokens.net, group));
    optim::Adam adam(sharded ? sharded->parameters() : tokens.net.parameters(), {.lr = 0.1});
    const auto step = [&](const std::vector<std::int64_t>& of_last_rank) {
      adam.zero_grad();
      tokens.backward(group.rank() == group.size() - 1 ? of_last_rank : std::vector<std::int64_t>{1, 2});
      adam.step();
    };
    const auto parameters = [&] {
      std::vector<double> all;
      for (const auto& [name, x] : tokens.net.state_dict())
        for (const double v : elements(to(x, DType::f64))) all.push_back(v);
      return all;
    };
    step({3, 4});
    const auto before = parameters();
    step({3, 7});
    if (group.rank() == group.size() - 1)
      EXPECT_THROWS_SAYING(synchronize(own_gpu()), ValueError, "index 7 is not in [0, 5)");
    else
      EXPECT_THROWS_SAYING(synchronize(own_gpu()), DistributedError,
                           detail::concat("rank ", group.size() - 1, " has computed with an invalid value"));
    EXPECT_EQ(parameters(), before);
    if (!is_sharded) { EXPECT_EQ(adam.state_dict().integer("state.0.step"), 1); }
    step({0, 4});
    EXPECT_NE(parameters(), before);
    const Tensor mine = from_vector(parameters(), {static_cast<std::int64_t>(before.size())}, own_gpu());
    const Tensor all = reshape(dist::all_gather(mine, group), {group.size(), -1});
    for (int r = 0; r < group.size(); ++r) EXPECT_EQ(elements(all[r]), parameters()) << "rank " << r;
  }
}

TEST_F(GpuRanks, OpenNoOtherGpu) {
  const Group group = world();
  if (!is_nccl(group)) GTEST_SKIP() << "needs a GPU for each rank";
  dist::all_reduce(ones({1000}, DType::f32, own_gpu()), group);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // the thread that watches the collective has asked for it
  dist::barrier(group);
  const auto outside = memory::snapshot(own_gpu()).outside;
  if (!outside || !outside->others) GTEST_SKIP() << "the driver does not say what other processes use";
  EXPECT_LT(*outside->others, std::size_t{200} << 20) << "a context takes more";
}

TEST_F(GpuRanks, GroupsMayBeSplit) {
  const Group group = world();
  std::vector<int> colours;
  for (int r = 0; r < group.size(); ++r) colours.push_back(r % 2);
  const Group half = group.split(colours);
  const Tensor x = full({5}, static_cast<double>(group.rank()), DType::f64, own_gpu());
  double sum = 0;
  for (const int r : half.world_ranks()) sum += r;
  EXPECT_EQ(elements(dist::all_reduce(x, half)), elements(full({5}, sum, DType::f64)));
}

}  // namespace
}  // namespace bytetape
