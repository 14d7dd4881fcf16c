#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/predict.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using dist::Group;
using test::elements;
using test::values_of;
using test::values_of_all;
using test::world;

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                DType::i64, DType::i32, DType::u8,   DType::boolean};

/// The reduction as ops compute it, rank after rank, 16-bit floats in f32.
Tensor reduced(const std::vector<Tensor>& all, ReduceOp op) {
  const DType dtype = all[0].dtype();
  const DType wide = size_of(dtype) == 2 ? DType::f32 : dtype;
  Tensor sum = to(all[0], wide);
  for (std::size_t r = 1; r < all.size(); ++r) {
    const Tensor x = to(all[r], wide);
    if (op == ReduceOp::product) sum = sum * x;
    if (op == ReduceOp::sum || op == ReduceOp::average) sum = sum + x;
    if (op == ReduceOp::min) sum = minimum(sum, x);
    if (op == ReduceOp::max) sum = maximum(sum, x);
  }
  if (op == ReduceOp::average && all.size() > 1) sum = sum / static_cast<double>(all.size());
  return to(sum, dtype);
}

TEST(AllReduce, CombinesInTheOrderOfRanks) {
  const Group group = world();
  for (const DType dtype : all_dtypes)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product})
      for (const Shape& shape : {Shape{0}, Shape{}, Shape{1}, Shape{7, 5}, Shape{1031}, Shape{3, 70001}}) {
        if (dtype == DType::boolean) continue;  // compared with any and all below
        if (op == ReduceOp::average && !is_floating(dtype)) continue;
        const auto all = values_of_all(group, shape, dtype);
        const Tensor y = dist::all_reduce(all[static_cast<std::size_t>(group.rank())], group, op);
        EXPECT_EQ(y.shape(), shape);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(elements(y), elements(reduced(all, op))) << dtype << shape << name_of(op);
      }
}

TEST(AllReduce, OfBoolIsAnyOrAll) {
  const Group group = world();
  const Tensor x = test::make_tensor({group.rank() == 0 ? 1. : 0., 1, 0}, {3}, DType::boolean);
  EXPECT_EQ(elements(dist::all_reduce(x, group, ReduceOp::max)), (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(elements(dist::all_reduce(x, group, ReduceOp::min)),
            (std::vector<double>{group.size() == 1 ? 1. : 0., 1, 0}));
}

TEST(AllReduce, PassesNaNsOn) {
  const Group group = world();
  for (const int from : {0, group.size() - 1})
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum}) {
      const double mine = group.rank() == from ? std::numeric_limits<double>::quiet_NaN() : 1.;
      EXPECT_TRUE(std::isnan(dist::all_reduce(full({1}, mine, DType::f64), group, op).item<double>()))
          << from << name_of(op);
    }
}

TEST(AllReduce, OfIntegersWrapsAround) {
  const Group group = world();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Tensor sum = dist::all_reduce(full({2}, most, DType::i64), group);
  EXPECT_EQ(sum.to_vector<std::int64_t>()[1],
            static_cast<std::int64_t>(static_cast<std::uint64_t>(most) * static_cast<std::uint64_t>(group.size())));
}

TEST(AllReduce, TakesViewsWithGaps) {
  const Group group = world();
  const auto all = values_of_all(group, {6, 9});
  const auto gaps = [](const Tensor& x) { return narrow(transpose(x, 0, 1), 0, 1, 7); };
  std::vector<Tensor> views;
  for (const Tensor& x : all) views.push_back(gaps(x));
  const Tensor mine = all[static_cast<std::size_t>(group.rank())];
  const Tensor expected = reduced(views, ReduceOp::sum);
  EXPECT_EQ(elements(dist::all_reduce(gaps(mine), group)), elements(expected));

  const Tensor written = clone(mine);
  dist::all_reduce_(gaps(written), group);
  EXPECT_EQ(elements(gaps(written)), elements(expected));
  EXPECT_EQ(elements(narrow(written, 1, 0, 1)), elements(narrow(mine, 1, 0, 1)));  // outside the view
}

TEST(AllReduce, InPlaceOverwrites) {
  const Group group = world();
  const auto all = values_of_all(group, {1031}, DType::bf16);
  const Tensor x = clone(all[static_cast<std::size_t>(group.rank())]);
  const std::uint32_t version = x.storage().version();
  const Tensor y = dist::all_reduce_(x, group, ReduceOp::average);
  EXPECT_TRUE(y.is_same(x));
  EXPECT_GT(x.storage().version(), version);
  EXPECT_EQ(elements(x), elements(reduced(all, ReduceOp::average)));
}

TEST(AllReduce, HasTheSameBitsInTwentyRuns) {
  const Group group = world();
  const Tensor x = values_of(group.rank(), {1 << 16}, DType::f32);
  const auto first = elements(dist::all_reduce(x, group));
  for (int i = 0; i < 20; ++i) ASSERT_EQ(elements(dist::all_reduce(x, group)), first);
}

TEST(ReduceScatter, IsThisRanksPart) {
  const Group group = world();
  for (const DType dtype : {DType::f64, DType::f16, DType::i32}) {
    const auto all = values_of_all(group, {3 * group.size(), 5}, dtype);
    const Tensor y = dist::reduce_scatter(all[static_cast<std::size_t>(group.rank())], group);
    EXPECT_EQ(elements(y), elements(narrow(reduced(all, ReduceOp::sum), 0, 3 * group.rank(), 3)));
  }
}

TEST(Into, WritesToATensorOrToAPartOfTheOther) {
  const Group group = world();
  const std::int64_t n = group.size();
  const auto mine = static_cast<std::size_t>(group.rank());
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32}) {
    const auto all = test::values_of_all(group, {3 * n, 2}, dtype);
    const Tensor reduced = dist::reduce_scatter(all[mine], group), gathered = dist::all_gather(reduced, group);
    const Tensor apart = empty({3, 2}, dtype), whole = empty({3 * n, 2}, dtype);
    const std::uint32_t version = apart.storage().version();
    dist::reduce_scatter_into(apart, all[mine], group);
    EXPECT_GT(apart.storage().version(), version);
    dist::all_gather_into(whole, apart, group);
    EXPECT_EQ(elements(apart), elements(reduced));
    EXPECT_EQ(elements(whole), elements(gathered));
    const Tensor shared = clone(all[mine]), own = narrow(shared, 0, 3 * group.rank(), 3);
    dist::reduce_scatter_into(own, shared, group);
    EXPECT_EQ(elements(own), elements(reduced));
    dist::all_gather_into(shared, own, group);
    EXPECT_EQ(elements(shared), elements(gathered));
  }
}

TEST(Into, RefusesBadInput) {
  const Group group = world();
  const Tensor x = zeros({4 * group.size(), 2}), y = zeros({4, 2});
  EXPECT_THROWS_SAYING(dist::reduce_scatter_into(zeros({5, 2}), x, group), ShapeError,
                       "expected a part of shape (4, 2)");
  EXPECT_THROWS_SAYING(dist::all_gather_into(x, zeros({4, 2}, DType::f64), group), DTypeError, "different dtypes");
  EXPECT_THROWS_SAYING(dist::all_gather_into(x, transpose(zeros({2, 4}), 0, 1), group), ValueError, "row-major");
  EXPECT_THROWS_SAYING(dist::all_gather_into(x, zeros({4, 2}).set_requires_grad(), group), AutogradError, "detach");
  EXPECT_THROWS_SAYING(dist::reduce_scatter_into(y, Tensor(), group), ValueError, "undefined");
}

TEST(AllGather, IsAllValuesInTheOrderOfRanks) {
  const Group group = world();
  for (const DType dtype : all_dtypes)
    for (const Shape& shape : {Shape{2, 3}, Shape{0, 3}, Shape{1}}) {
      const auto all = values_of_all(group, shape, dtype);
      EXPECT_EQ(elements(dist::all_gather(all[static_cast<std::size_t>(group.rank())], group)), elements(cat(all, 0)));
    }
  const Tensor ranks = dist::all_gather(full({}, group.rank(), DType::i64), group);
  EXPECT_EQ(elements(ranks), elements(arange(group.size())));
}

TEST(AllToAll, TransposesParts) {
  const Group group = world();
  const auto all = values_of_all(group, {2 * group.size(), 3}, DType::f32);
  std::vector<Tensor> parts;
  for (const Tensor& x : all) parts.push_back(narrow(x, 0, 2 * group.rank(), 2));
  EXPECT_EQ(elements(dist::all_to_all(all[static_cast<std::size_t>(group.rank())], group)), elements(cat(parts, 0)));
}

TEST(Broadcast, IsTheValueOfTheRoot) {
  const Group group = world();
  for (int root = 0; root < group.size(); ++root) {
    const auto all = values_of_all(group, {5, 4}, DType::f16);
    const Tensor& mine = all[static_cast<std::size_t>(group.rank())];
    const Tensor& theirs = all[static_cast<std::size_t>(root)];
    EXPECT_EQ(elements(dist::broadcast(mine, group, root)), elements(theirs));
    const Tensor view = transpose(clone(mine), 0, 1);
    EXPECT_TRUE(dist::broadcast_(view, group, root).is_same(view));
    EXPECT_EQ(elements(view), elements(transpose(theirs, 0, 1)));
  }
}

TEST(SendAndRecv, PassARing) {
  const Group group = world();
  if (group.size() == 1) return;
  const int next = (group.rank() + 1) % group.size(), before = (group.rank() + group.size() - 1) % group.size();
  const Tensor x = values_of(group.rank(), {9, 2}, DType::bf16), y = zeros({9, 2}, DType::bf16);
  if (group.rank() == 0) dist::send(x, group, next);
  dist::recv_(y, group, before);
  if (group.rank() != 0) dist::send(x, group, next);
  EXPECT_EQ(elements(y), elements(values_of(before, {9, 2}, DType::bf16)));
}

/// The gradients of all ranks' x, where the loss is the sum over ranks of w times the collective's result.
void check_gradient(const Shape& shape, const std::function<Tensor(const Tensor&)>& collective,
                    const std::function<Tensor(const std::vector<Tensor>& w)>& expected) {
  const Group group = world();
  const Tensor x = values_of(group.rank(), shape).set_requires_grad();
  const Tensor y = collective(x);
  ASSERT_TRUE(y.requires_grad());
  const auto w = values_of_all(group, y.shape(), DType::f64, "weights");
  y.backward(w[static_cast<std::size_t>(group.rank())]);
  EXPECT_TRUE(test::all_close(x.grad(), expected(w)));
}
Tensor sum_of(const std::vector<Tensor>& all) { return reduced(all, ReduceOp::sum); }

TEST(Collectives, HaveGradients) {
  const Group group = world();
  const int rank = group.rank(), size = group.size();
  check_gradient(
      {4, 3}, [&](const Tensor& x) { return dist::all_reduce(x, group); }, sum_of);
  check_gradient(
      {4, 3}, [&](const Tensor& x) { return dist::all_reduce(x, group, ReduceOp::average); },
      [&](const auto& w) { return sum_of(w) / static_cast<double>(size); });
  check_gradient(
      {2 * size, 3}, [&](const Tensor& x) { return dist::reduce_scatter(x, group); },
      [](const auto& w) { return cat(w, 0); });
  check_gradient(
      {2 * size, 3}, [&](const Tensor& x) { return dist::reduce_scatter(x, group, ReduceOp::average); },
      [&](const auto& w) { return cat(w, 0) / static_cast<double>(size); });
  check_gradient(
      {2, 3}, [&](const Tensor& x) { return dist::all_gather(x, group); },
      [&](const auto& w) { return narrow(sum_of(w), 0, 2 * rank, 2); });
  check_gradient(
      {}, [&](const Tensor& x) { return dist::all_gather(x, group); },
      [&](const auto& w) { return select(sum_of(w), 0, rank); });
  check_gradient(
      {2 * size, 3}, [&](const Tensor& x) { return dist::all_to_all(x, group); },
      [&](const auto& w) {
        std::vector<Tensor> parts;
        for (const Tensor& of_rank : w) parts.push_back(narrow(of_rank, 0, 2 * rank, 2));
        return cat(parts, 0);
      });
  for (int root = 0; root < size; ++root)
    check_gradient(
        {4}, [&](const Tensor& x) { return dist::broadcast(x, group, root); },
        [&](const auto& w) { return rank == root ? sum_of(w) : zeros_like(w[0]); });
}

TEST(Collectives, HaveSecondDerivatives) {
  const Group group = world();
  const Tensor x = values_of(group.rank(), {3}).set_requires_grad();
  const Tensor y = sum(pow(dist::all_reduce(x, group), 3));    // of each rank
  const Tensor g = grad({y}, {x}, {.create_graph = true})[0];  // size * 3 s^2
  const Tensor gg = grad({sum(g)}, {x})[0];
  const Tensor s = sum_of(values_of_all(group, {3}));
  const double n = group.size();
  EXPECT_TRUE(test::all_close(g, s * s * (3 * n)));
  EXPECT_TRUE(test::all_close(gg, s * (6 * n * n)));
}

TEST(Collectives, HaveSecondDerivativesOfBroadcast) {
  const Group group = world();
  const Tensor x = values_of(group.rank(), {3}).set_requires_grad();
  const Tensor g = grad({sum(pow(dist::broadcast(x, group), 3))}, {x}, {.create_graph = true})[0];
  const Tensor gg = grad({sum(g * g)}, {x})[0];
  const Tensor root = values_of(0, {3});
  const double n = group.rank() == 0 ? group.size() : 0;
  EXPECT_TRUE(test::all_close(g, root * root * (3 * n)));
  // On the root, the sum of (3 n x^2)^2 is differentiated.
  EXPECT_TRUE(test::all_close(gg, pow(root, 3) * (36 * n * n)));
}

TEST(Collectives, RefuseBadInput) {
  const Group group = world();
  const Tensor x = zeros({group.size() + 1, 2});
  EXPECT_THROWS_SAYING(dist::all_reduce({}, group), ValueError, "all_reduce");
  EXPECT_THROWS_SAYING(dist::all_reduce(zeros({2}, DType::i32), group, ReduceOp::average), DTypeError, "i32(2,)");
  EXPECT_THROWS_SAYING(dist::all_reduce(zeros({2}, DType::boolean), group), DTypeError, "min or max");
  Tensor leaf = zeros({2}, DType::f64);
  leaf.set_requires_grad();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    EXPECT_THROWS_SAYING(dist::all_reduce(leaf, group, op), NotImplemented, name_of(op));
    EXPECT_THROWS_SAYING(dist::all_reduce_(leaf * 2, group, op), NotImplemented, name_of(op));
    EXPECT_THROWS_SAYING(dist::reduce_scatter(leaf, group, op), NotImplemented, name_of(op));
  }
  EXPECT_THROWS_SAYING(dist::all_reduce_(leaf, group), AutogradError, "leaf");
  EXPECT_THROWS_SAYING(dist::all_reduce_(expand(zeros({1}), {3}), group), ValueError, "memory");
  EXPECT_THROWS_SAYING(dist::broadcast(x, group, group.size()), ValueError, "root");
  EXPECT_THROWS_SAYING(dist::broadcast(x, group, -1), ValueError, "root");
  EXPECT_THROWS_SAYING(dist::send(x, group, group.rank()), ValueError, "another rank");
  EXPECT_THROWS_SAYING(dist::recv_(x, group, group.size()), ValueError, "another rank");
  EXPECT_THROWS_SAYING(dist::send(x, group, -1), ValueError, "another rank");
  EXPECT_THROWS_SAYING(dist::reduce_scatter(zeros({}), group), ShapeError, "multiple");
  if (group.size() == 1) return;
  EXPECT_THROWS_SAYING(dist::reduce_scatter(x, group), ShapeError, "multiple of");
  EXPECT_THROWS_SAYING(dist::all_to_all(x, group), ShapeError, "multiple of");
  EXPECT_EQ(dist::all_reduce(ones({}), group).item<int>(), group.size());  // the group still works
}

TEST(Collectives, LeaveNothingHeld) {
  const Group group = world();
  const std::size_t before = test::allocated();
  {
    const Tensor x = values_of(group.rank(), {4 * group.size(), 8}).set_requires_grad();
    sum(dist::all_gather(dist::reduce_scatter(x, group), group)).backward();
  }
  EXPECT_EQ(test::allocated(), before);
}

/// Nanoseconds of a clock that all processes of a host share.
std::int64_t now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

TEST(AnyRank, IsTrueOnAllRanks) {
  const Group group = world();
  for (int from = 0; from < group.size(); ++from) EXPECT_TRUE(dist::any_rank(group.rank() == from, group));
  EXPECT_FALSE(dist::any_rank(false, group));
}

TEST(Barrier, IsLeftOnceAllRanksHaveCome) {
  const Group group = world();
  for (int last = 0; last < group.size(); ++last) {
    if (group.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Tensor times = empty({1, 2}, DType::i64);
    auto* const time = Tensor(times).data<std::int64_t>();
    time[0] = now();
    dist::barrier(group);
    time[1] = now();
    const Tensor all = dist::all_gather(times, group);
    EXPECT_GE(min(select(all, 1, 1)).item<std::int64_t>(), max(select(all, 1, 0)).item<std::int64_t>()) << last;
  }
}

}  // namespace
}  // namespace bytetape
