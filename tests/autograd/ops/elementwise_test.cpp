// Fused rules write their result over what nobody else holds: the gradient, or else what they saved.
#include "bytetape/autograd/ops/elementwise.h"

#include <utility>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

constexpr std::int64_t n = 4096;
constexpr std::size_t one = n * sizeof(double);  // bytes of a tensor, a multiple of the rounding

/// What the peak rises by in f().
template <class F>
std::size_t rise(const F& f) {
  memory::reset_peaks({});
  const std::size_t before = test::allocated();
  f();
  return test::statistics().allocated.peak - before;
}

class Fused : public testing::TestWithParam<Tensor (*)(const Tensor&)> {
 protected:
  Tensor op(const Tensor& x) const { return GetParam()(x); }
  /// The gradient of sum(f(x)) by the rule that is recorded, which writes over nothing.
  Tensor expected() const { return grad({sum(op(x))}, {x}, {.create_graph = true})[0].detach(); }

  const Tensor x = random_leaf({n});
};
// Each saves its output, so that the test can let it go.
INSTANTIATE_TEST_SUITE_P(, Fused, testing::Values(&tanh, &sigmoid, &relu));

TEST_P(Fused, WritesOverWhatItSavedWhereTheGradientIsExpanded) {
  const Tensor right = expected(), y = sum(op(x));
  Tensor g;
  EXPECT_LT(rise([&] { g = grad({y}, {x})[0]; }), one);
  EXPECT_TRUE(all_close(g, right));
}

TEST_P(Fused, WritesOverTheGradient) {
  const Tensor right = expected() * 2, held = op(x), y = sum(held * 2);
  Tensor g;
  EXPECT_LT(rise([&] { g = grad({y}, {x})[0]; }), 2 * one);  // that of the product
  EXPECT_TRUE(all_close(g, right));
}

TEST_P(Fused, LeavesAnOutputThatTheUserHolds) {
  const Tensor right = expected(), held = op(x), before = clone(held).detach();
  EXPECT_TRUE(all_close(grad({sum(held)}, {x})[0], right));
  EXPECT_TRUE(all_close(held, before, 0, 0));
}

TEST_P(Fused, LeavesAnOutputThatAViewOfTheUsersShows) {
  const Tensor right = expected();
  Tensor y = op(x);
  const Tensor part = narrow(y.detach(), 0, 1, n - 1), before = clone(part);
  y = sum(y);
  EXPECT_TRUE(all_close(grad({y}, {x})[0], right));
  EXPECT_TRUE(all_close(part, before, 0, 0));
}

TEST_P(Fused, LeavesWhatARetainedGraphSaved) {
  const Tensor right = expected(), y = sum(op(x));
  for (const bool retain : {true, true, false})
    EXPECT_TRUE(all_close(grad({y}, {x}, {.retain_graph = retain})[0], right));
}

TEST_P(Fused, LeavesWhatAnotherNodeSaved) {
  const Tensor right = expected(), w = random_leaf({n});
  Tensor y = op(x);
  const Tensor before = clone(y).detach(), other = sum(y.detach() * w);
  y = sum(y);
  EXPECT_TRUE(all_close(grad({y}, {x})[0], right));
  EXPECT_TRUE(all_close(grad({other}, {w})[0], before, 0, 0));
}

TEST_P(Fused, KeepsTheLayoutOfItsInput) {
  const Tensor image = channels_last(random_tensor({2, 3, 4, 5})).set_requires_grad();
  const Tensor gy = random_tensor({2, 3, 4, 5});
  EXPECT_EQ(grad({op(image)}, {image}, {.seeds = {gy}})[0].strides(), image.strides());
}

// It saves its input.
TEST(GeluBackward, WritesOverAnInputThatIsNoMoreNeeded) {
  const Tensor x = random_leaf({n});
  const auto loss = [&](Tensor u) { return sum(gelu(std::move(u))); };
  const Tensor right = grad({loss(x * 2)}, {x}, {.create_graph = true})[0].detach(), y = loss(x * 2);
  Tensor g;
  EXPECT_LT(rise([&] { g = grad({y}, {x})[0]; }), 2 * one);  // that of the product
  EXPECT_TRUE(all_close(g, right));
  const auto before = x.to_vector<double>();
  grad({loss(x)}, {x});
  EXPECT_EQ(x.to_vector<double>(), before);
}

TEST_P(Fused, CanBeTakenAgainAfterTooLittleMemory) {
  const Tensor large = random_leaf({1 << 21}), y = op(large), seed = random_tensor({1 << 21});
  const std::size_t limit = memory::snapshot().limit;
  memory::empty_cache();
  memory::set_limit(test::statistics().reserved.current);
  std::vector<Tensor> fillers;  // of what other tests left free in segments that they still use
  const auto fill = [&] {
    for (;;) fillers.push_back(empty_like(large));
  };
  EXPECT_THROW(fill(), OutOfMemory);
  EXPECT_THROW(grad({y}, {large}, {.seeds = {seed}}), OutOfMemory);
  memory::set_limit(limit);
  fillers.clear();
  EXPECT_EQ(grad({y}, {large}, {.seeds = {seed}})[0].shape(), large.shape());
}

}  // namespace
}  // namespace bytetape
