#include "bytetape/distributed/sync_batch_norm.h"

#include "bytetape/bytetape.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using dist::Group;
using test::elements;
using test::world;

struct Case {
  DType dtype = DType::f64;
  Activation activation = Activation::none;
  bool has_residual = false, is_affine = true, is_row = false;
};

/// The rows of a rank: ranks have batches of different sizes.
std::int64_t rows_of(int rank) { return 2 + rank; }

/// Runs a layer on each rank's rows, and on all rows in one process, and compares the results.
void compare(const Case& c) {
  const Group group = world();
  const auto shape = [&](std::int64_t n) { return c.is_row ? Shape{n, 3} : Shape{n, 3, 4, 2}; };
  const auto draw = [&](const char* name) {
    std::vector<Tensor> all;
    for (int r = 0; r < group.size(); ++r) all.push_back(test::values_of(r, shape(rows_of(r)), c.dtype, name) + r);
    return all;
  };
  const auto x = draw("x"), residual = draw("residual"), seeds = draw("seeds");
  const auto make = [&] {
    nn::Sequential net;
    const nn::BatchNormOptions options{.affine = c.is_affine};
    c.is_row ? net.push_back(nn::BatchNorm1d(3, options)) : net.push_back(nn::BatchNorm2d(3, options));
    if (c.is_affine) {
      const NoGrad no_grad;
      copy_(net.parameters()[0], tensor({0.5f, 1.f, 2.f}));
      copy_(net.parameters()[1], tensor({0.1f, 0.2f, -0.3f}));
    }
    if (c.dtype == DType::f64) net.to(DType::f64);
    return net;
  };
  const auto run = [&](nn::Sequential& net, const Tensor& x, const Tensor& residual) {
    auto& norm = net[0].as<nn::BatchNorm>();
    return c.has_residual ? norm(x, residual, c.activation) : norm(x, c.activation);
  };
  auto alone = make(), synced = make();
  dist::sync_batch_norm(synced, group);
  const auto mine = static_cast<std::size_t>(group.rank());
  const Tensor all_x = cat(x, 0).set_requires_grad(), all_residual = cat(residual, 0).set_requires_grad();
  const Tensor own_x = clone(x[mine]).set_requires_grad(), own_residual = clone(residual[mine]).set_requires_grad();
  const Tensor expected = run(alone, all_x, all_residual), found = run(synced, own_x, own_residual);
  expected.backward(cat(seeds, 0));
  found.backward(seeds[mine]);

  std::int64_t begin = 0;
  for (int r = 0; r < group.rank(); ++r) begin += rows_of(r);
  const auto own = [&](const Tensor& t) { return narrow(t, 0, begin, rows_of(group.rank())); };
  const double tolerance = c.dtype == DType::f64 ? 1e-12 : c.dtype == DType::f32 ? 1e-5 : 4e-2;
  const auto expect_close = [&](const Tensor& a, const Tensor& b, const char* what) {
    EXPECT_TRUE(test::all_close(to(a, DType::f64), to(b, DType::f64), tolerance, tolerance)) << what;
  };
  EXPECT_EQ(found.dtype(), c.dtype);
  expect_close(found, own(expected), "y");
  expect_close(own_x.grad(), own(all_x.grad()), "gradient of x");
  if (c.has_residual) expect_close(own_residual.grad(), own(all_residual.grad()), "gradient of the residual");
  for (std::size_t i = 0; i < alone.parameters().size(); ++i)
    expect_close(dist::all_reduce(synced.parameters()[i].grad(), group), alone.parameters()[i].grad(), "gradient");
  const auto buffers = synced.named_buffers(), wanted = alone.named_buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) expect_close(buffers[i].second, wanted[i].second, "buffer");
}

TEST(SyncBatchNorm, IsBatchNormOfAllBatches) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const Activation activation : {Activation::none, Activation::relu})
      for (const bool has_residual : {false, true}) compare({dtype, activation, has_residual});
  compare({.is_affine = false});
  compare({.activation = Activation::relu, .is_row = true});
}

TEST(SyncBatchNorm, CountsABatchOnceUnderCheckpoint) {
  const Group group = world();
  const auto run = [&](bool is_checkpointed) {
    Generator generator(4);
    const DefaultGenerator scope(generator);
    nn::Sequential net{nn::Conv2d(1, 3, 3), nn::BatchNorm2d(3), nn::ReLU()};
    dist::sync_batch_norm(net, group);
    net.set_checkpointed(is_checkpointed);
    const Tensor x = test::values_of(group.rank(), {2, 1, 5, 5}, DType::f32);
    sum(net(x) * 0.5).backward();
    std::vector<std::vector<double>> all;
    for (const Tensor& p : net.parameters()) all.push_back(elements(p.grad()));
    for (const auto& [name, b] : net.named_buffers()) all.push_back(elements(b));
    return all;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(SyncBatchNorm, HasTheStatisticsOfUpdateBn) {
  const Group group = world();
  nn::BatchNorm2d norm(3);
  dist::sync_batch_norm(norm, group);
  std::vector<Tensor> batches;
  for (int i = 0; i < 3; ++i)
    batches.push_back(test::values_of(group.rank(), {2, 3, 2, 2}, DType::f32, "batch " + std::to_string(i)));
  nn::update_bn(batches, norm);
  const Tensor all = dist::all_gather(norm.running_var, group);
  for (int r = 0; r < group.size(); ++r)
    EXPECT_EQ(elements(narrow(all, 0, 3 * r, 3)), elements(norm.running_var)) << "rank " << r;
  EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 3);
}

TEST(SyncBatchNorm, KeepsStatisticsWithoutTwoValues) {
  const Group group = world();
  if (group.size() == 1) return;
  nn::BatchNorm1d norm(3);
  dist::sync_batch_norm(norm, group);
  norm(ones({group.rank() == 0 ? 1 : 0, 3}));
  EXPECT_EQ(elements(norm.running_var), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(elements(norm.running_mean), (std::vector<double>{0, 0, 0}));
}

TEST(SyncBatchNorm, LeavesEvaluationAsItWas) {
  nn::BatchNorm2d norm(3), plain(3);
  dist::sync_batch_norm(norm, world());
  const Tensor x = test::values_of(world().rank(), {2, 3, 2, 2}, DType::f32);
  norm.eval();
  plain.eval();
  EXPECT_EQ(elements(norm(x)), elements(plain(x)));
}

TEST(SyncBatchNorm, TrainsWithDataParallelAsOneProcess) {
  const Group group = world();
  const auto make = [] {
    Generator generator(9);
    const DefaultGenerator scope(generator);
    nn::Sequential net{nn::Conv2d(1, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::Flatten(), nn::Linear(36, 5)};
    net.to(DType::f64);
    return net;
  };
  auto alone = make(), net = make();
  dist::sync_batch_norm(net, group);
  const dist::DataParallel parallel(net, group);
  optim::SGD of_alone(alone.parameters(), {.lr = 0.1}), of_net(net.parameters(), {.lr = 0.1});
  for (int step = 0; step < 5; ++step) {
    std::vector<Tensor> x, t;
    for (int r = 0; r < group.size(); ++r) {
      x.push_back(test::values_of(r, {3, 1, 5, 5}, DType::f64, "x" + std::to_string(step)));
      t.push_back(test::values_of(r, {3, 5}, DType::f64, "t" + std::to_string(step)));
    }
    mse_loss(alone(cat(x, 0)), cat(t, 0)).backward();
    const auto mine = static_cast<std::size_t>(group.rank());
    mse_loss(net(x[mine]), t[mine]).backward();
    of_alone.step();
    of_net.step();
    of_alone.zero_grad();
    of_net.zero_grad();
  }
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    EXPECT_TRUE(test::all_close(net.parameters()[i], alone.parameters()[i], 1e-11, 1e-11)) << i;
}

}  // namespace
}  // namespace bytetape
