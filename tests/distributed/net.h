#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"

/// \file
/// A small network and its batches, for tests of training on several ranks.
namespace bytetape::test {

/// A network with a tied parameter, convolutions, and a part that a step may leave out.
struct Net : nn::Module {
  nn::Conv2d conv{1, 3, 3, {.padding = 1}};
  nn::Linear in{3 * 16, 8}, out{8, 8}, extra{8, 8};
  Net() {
    register_module("conv", conv);
    register_module("in", in);
    register_module("out", out);
    register_module("extra", extra);
    out.weight = extra.weight;
  }
  Tensor forward(const Tensor& x) override {
    const Tensor h = relu(in(flatten(relu(conv(x)), 1)));
    return uses_extra ? out(tanh(extra(h))) : out(h);
  }
  bool uses_extra = true;
};

/// Equal on all ranks.
inline std::unique_ptr<Net> make_net(std::uint64_t seed = 5, DType dtype = DType::f64) {
  Generator generator(seed);
  const DefaultGenerator scope(generator);
  auto net = std::make_unique<Net>();
  net->to(dtype);
  return net;
}

inline constexpr std::int64_t per_rank = 3;
/// The joined batch of a step, and the classes.
inline std::pair<Tensor, Tensor> joined(int step, int ranks) {
  Generator generator(static_cast<std::uint64_t>(100 + step));
  const std::int64_t n = per_rank * ranks;
  return {randn({n, 1, 4, 4}, DType::f64, Device(), generator), randint(0, 8, {n}, DType::i64, Device(), generator)};
}
inline Tensor part(const Tensor& x, int rank) { return narrow(x, 0, per_rank * rank, per_rank); }

/// All parameters as one row.
inline Tensor flat(nn::Module& net) {
  const NoGrad no_grad;
  std::vector<Tensor> rows;
  for (const Tensor& p : net.parameters()) rows.push_back(reshape(p.detach(), {-1}));
  return cat(rows, 0);
}

inline void expect_equal_on_all_ranks(nn::Module& net, const dist::Group& group) {
  const Tensor mine = flat(net);
  const Tensor all = reshape(dist::all_gather(mine, group), {group.size(), -1});
  for (int r = 0; r < group.size(); ++r) EXPECT_EQ(elements(all[r]), elements(mine)) << "rank " << r;
}

inline constexpr dist::Shard all_shards[] = {dist::Shard::optimizer_state, dist::Shard::gradients,
                                             dist::Shard::parameters};

/// The loss of this rank's part of a batch.
inline Tensor loss_of(nn::Module& net, int step, const dist::Group& group, DType dtype = DType::f64) {
  const auto batch = joined(step, group.size());
  return cross_entropy(net(to(part(batch.first, group.rank()), dtype)), part(batch.second, group.rank()));
}

/// Returns the colours of a split into groups of `size` ranks, of which the last one may be smaller.
inline std::vector<int> colours(const dist::Group& group, int size) {
  std::vector<int> all;
  for (int r = 0; r < group.size(); ++r) all.push_back(r / size);
  return all;
}

}  // namespace bytetape::test
