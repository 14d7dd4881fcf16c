#include "bytetape/autograd/ops/concat.h"

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/op_observer.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;
using test::random_tensor;

TEST(Cat, JoinsTheFirstDimUnlessToldOtherwise) {
  const Tensor x = random_tensor({2, 3});
  EXPECT_EQ(cat({x, x, x}).shape(), (Shape{6, 3}));
  EXPECT_EQ(stack({x, x, x}).shape(), (Shape{3, 2, 3}));
}

TEST(Cat, KeepsChannelsLast) {
  const Tensor a = channels_last(random_tensor({2, 3, 4, 5})), b = random_tensor({2, 6, 4, 5});
  EXPECT_EQ(cat({a, b}, 1).strides(), channels_last_strides({2, 9, 4, 5}));
  EXPECT_EQ(cat({narrow(a, 1, 0, 2), b}, 1).strides(), channels_last_strides({2, 8, 4, 5}));
}

TEST(Cat, RefusesAViewLeftBehindInAnyPlace) {
  const Tensor p = random_leaf({2}), q = random_leaf({2});
  Tensor base = q * 3;
  const Tensor v = view(base, {2});
  mul_(base, 10);
  EXPECT_THROWS_SAYING(cat({v, p}, 0), AutogradError, "cat: an input, f64(2,) on cpu, is a view taken before 'mul_'");
  EXPECT_THROWS_SAYING(cat({p, v}, 0), AutogradError, "cat: an input, f64(2,) on cpu, is a view taken before 'mul_'");
}

TEST(Split, GivesViewsOfSizesAsPyTorch) {
  const Tensor x = random_tensor({7, 2});
  const auto sizes = [](const std::vector<Tensor>& parts) {
    std::vector<std::int64_t> all;
    for (const Tensor& part : parts) all.push_back(part.size(0));
    return all;
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes(split(x, 3)), (Sizes{3, 3, 1}));
  EXPECT_EQ(sizes(split(x, 9)), (Sizes{7}));
  EXPECT_EQ(sizes(split(x, {2, 5})), (Sizes{2, 5}));
  EXPECT_EQ(sizes(split(x, {7})), (Sizes{7}));
  EXPECT_THROW(split(x, {3}), ShapeError) << "a list of sizes, not a size";
  EXPECT_EQ(sizes(chunk(x, 3)), (Sizes{3, 3, 1}));
  EXPECT_EQ(sizes(chunk(x, 5)), (Sizes{2, 2, 2, 1})) << "fewer than asked for";
  EXPECT_EQ(sizes(chunk(narrow(x, 0, 0, 0), 3)), (Sizes{0, 0, 0}));
  EXPECT_EQ(&split(x, 3)[1].storage(), &x.storage());
}

// One gradient for all parts, joined once.
TEST(Split, TakesSizesThatAddUpAlone) {
  const Tensor x = random_tensor({3});
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {}, {2}, {5, -2}, {-1, 4}, {4, 3}, {3, 5}, {2, 2, -1}, {0, 4, -1}, {INT64_MAX, INT64_MAX, 5}})
    EXPECT_THROWS_SAYING(split(x, sizes), ShapeError, "add up to 3, the size of dim 0 of f64(3,)");
  EXPECT_EQ(split(x, std::vector<std::int64_t>{0, 3, 0}).size(), 3u);
  const auto of_nothing = split(random_tensor({0, 2}), 4);
  ASSERT_EQ(of_nothing.size(), 1u);
  EXPECT_EQ(of_nothing[0].shape(), (Shape{0, 2}));
}

TEST(Cat, SaysWhichTensorDoesNotFit) {
  const Tensor x = random_tensor({2, 3});
  EXPECT_THROWS_SAYING(cat({x, random_tensor({2, 4})}, 0), ShapeError,
                       "to have the shape of tensor 0, f64(2, 3) on cpu, except in dim 0");
  EXPECT_THROWS_SAYING(stack({x, random_tensor({2, 4})}, 0), ShapeError,
                       "to have the shape of tensor 0, f64(2, 3) on cpu");
}

TEST(Split, MakesOneGradient) {
  const auto allocations = [](bool by_chunk) {
    const Tensor x = random_leaf({6, 50});
    const std::vector<Tensor> parts =
        by_chunk ? chunk(x, 3) : std::vector{narrow(x, 0, 0, 2), narrow(x, 0, 2, 2), narrow(x, 0, 4, 2)};
    const Tensor y = cat({parts[2], parts[0], parts[1]});
    const auto before = test::statistics().allocations;
    y.backward(ones_like(y));
    return test::statistics().allocations - before;
  };
  EXPECT_LT(allocations(true), allocations(false));
}

TEST(Split, JoinsGradientsThatDoNotLieSideBySide) {
  const Tensor x = random_leaf({2, 4}), a = random_tensor({2, 4}), b = random_tensor({2, 4});
  const Tensor first = narrow(a, 1, 0, 2);
  for (const Tensor& second : {narrow(b, 1, 2, 2), a.alias({2, 2}, {2, 1}, 2), first}) {
    const Tensor g = grad(split(x, 2, 1), {x}, {.seeds = {first, second}})[0];
    EXPECT_EQ(g.to_vector<double>(), cat({first, second}, 1).to_vector<double>());
  }
}

/// Counts the calls of cat.
class Joins : public OpObserver {
 public:
  int count = 0;
  void end(const OpCall& call) noexcept override { count += std::string_view(call.definition.name) == "cat"; }
};

TEST(Split, DoesNotJoinGradientsThatLieSideBySide) {
  const Tensor x = random_leaf({2, 6}), all = random_tensor({2, 6}), other = random_tensor({2, 2});
  const auto joins = [&](const std::vector<Tensor>& seeds, bool create_graph = false) {
    const Joins counted;
    const std::vector<Tensor> parts = split(x, 2, 1);
    const Tensor g = grad(parts, {x}, {.seeds = seeds, .create_graph = create_graph})[0];
    const NoGrad no_grad;
    EXPECT_EQ(g.detach().to_vector<double>(), cat(seeds, 1).to_vector<double>());
    return counted.count - 1;
  };
  const std::vector<Tensor> parts = split(all, 2, 1);
  EXPECT_EQ(joins(parts), 0);
  EXPECT_EQ(joins(parts, true), 1) << "a view has no derivative here";
  EXPECT_EQ(joins({parts[0], parts[2], parts[1]}), 1) << "in another order";
  EXPECT_EQ(joins({parts[0], parts[1], other}), 1) << "of another tensor";
  EXPECT_EQ(joins({parts[0], parts[1], contiguous(parts[2])}), 1) << "of other strides";
  EXPECT_EQ(joins({parts[0], parts[0], parts[0]}), 1);
}

TEST(Split, CallsNoHookOfAPartWithoutGradient) {
  const Tensor x = random_leaf({4, 6});
  const auto parts = split(x, 3, 1);
  int calls = 0;
  for (const Tensor& part : parts) part.register_hook([&](const Tensor&) { return ++calls, Tensor(); });
  sum(parts[0] * 2).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(narrow(x.grad(), 1, 3, 3).to_vector<double>(), std::vector<double>(12, 0));
}

}  // namespace
}  // namespace bytetape
