#include "bytetape/autograd/gradcheck.h"

#include <cmath>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;
using test::random_tensor;
using Inputs = std::vector<Tensor>;

/// y = x^3, with a backward that is off by a factor, at first or second order, or in one element.
struct CubeBackward final : Node {
  Saved x{this};
  double factor = 1;
  bool drops_second_order = false, misses_last = false;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor saved = drops_second_order ? x.get().detach() : x.get();
    gx[0] = gy[0] * saved * saved * (3 * factor);
    if (misses_last) {
      Tensor last = select(gx[0].detach(), 0, -1);
      last *= 1.01;
    }
  }
};
struct Fault {
  double factor = 1;
  bool drops_second_order = false, misses_last = false;
};
Tensor cube(const Tensor& x, const Fault& fault = {}) {
  const memory::Op<"cube"> op;
  Tensor y = (x * x * x).detach();
  if (auto* node = record<CubeBackward>(y, x)) {
    node->factor = fault.factor;
    node->drops_second_order = fault.drops_second_order;
    node->misses_last = fault.misses_last;
    node->x.save(x);
  }
  return y;
}

TEST(Gradcheck, PassesARightBackward) {
  const auto fn = [](const Inputs& x) { return cube(x[0]); };
  const auto result = gradcheck(fn, {random_leaf({2, 3})});
  EXPECT_TRUE(result) << result.message;
  EXPECT_THAT(result.message, testing::HasSubstr("input 0 at ("));
  const auto second = gradgradcheck(fn, {random_leaf({2, 3})});
  EXPECT_TRUE(second) << second.message;
}

TEST(Gradcheck, FailsAWrongFactor) {
  const auto result = gradcheck([](const Inputs& x) { return cube(x[0], {.factor = 1.01}); }, {random_leaf({2, 3})});
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message, testing::HasSubstr("analytic"));
}

TEST(Gradcheck, FailsAndNamesOneWrongElement) {
  const auto result = gradcheck([](const Inputs& x) { return x[0] * cube(x[1], {.misses_last = true}); },
                                {random_leaf({4}), test::make_tensor({1, 2, -1, 1.5}, {4}).set_requires_grad()});
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message, testing::StartsWith("input 1 at (3,): analytic "));
}

// Unweighted, the errors of +1 and -1 would cancel in the sum.
TEST(Gradcheck, FailsErrorsThatCancelInASum) {
  struct SwapBackward final : Node {
    void backward(const Grads& gy, InputGrads& gx) override {
      gx[0] = cat({narrow(gy[0], 0, 1, 1), narrow(gy[0], 0, 0, 1)});
    }
  };
  const auto result = gradcheck(
      [](const Inputs& x) {
        Tensor y = clone(x[0].detach());
        record<SwapBackward>(y, x[0]);
        return y;
      },
      {random_leaf({2})});
  EXPECT_FALSE(result);
}

TEST(Gradcheck, FailsAMissingGradient) {
  const auto result =
      gradcheck([](const Inputs& x) { return x[0] * 2 + x[1].detach(); }, {random_leaf({2}), random_leaf({2})});
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message, testing::HasSubstr("input 1"));
}

TEST(Gradcheck, OfSecondOrderFailsWhereOnlyTheFirstIsRight) {
  const auto fn = [](const Inputs& x) { return cube(x[0], {.drops_second_order = true}); };
  EXPECT_TRUE(gradcheck(fn, {random_leaf({3})}));
  EXPECT_FALSE(gradgradcheck(fn, {random_leaf({3})}));
}

TEST(Gradcheck, FailsNaN) {
  const auto result = gradcheck([](const Inputs& x) { return x[0] * 0 / 0; }, {random_leaf({2})});
  EXPECT_FALSE(result);
}

TEST(Gradcheck, FailsOneNaNAmongOthers) {
  struct BrokenBackward final : Node {
    void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * test::make_tensor({1, NAN, 1}, {3}); }
  };
  const auto fn = [](const Inputs& x) {
    Tensor y = clone(x[0].detach());
    record<BrokenBackward>(y, x[0]);
    return y;
  };
  const auto result = gradcheck(fn, {random_leaf({3})});
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message, testing::HasSubstr("at (1,): analytic nan"));
}

// With a large step, a product of two elements tells whether the first is back where it was.
TEST(Gradcheck, MovesOneElementAtATime) {
  const auto product = [](const Inputs& x) { return select(x[0], 0, 0) * select(x[0], 0, 1); };
  const auto result = gradcheck(product, {test::make_tensor({2, 3}, {2}).set_requires_grad()},
                                {.eps = 0.1, .atol = 1e-9, .rtol = 1e-9});
  EXPECT_TRUE(result) << result.message;
}

TEST(Gradcheck, NamesTheElementInEachDim) {
  const Tensor x = test::make_tensor({1, 1, 1, 1, 3, 1}, {2, 3}).set_requires_grad();
  const auto result = gradcheck([](const Inputs& in) { return cube(in[0], {.misses_last = true}); }, {x});
  EXPECT_THAT(result.message, testing::StartsWith("input 0 at (1, 1): analytic "));
}

TEST(Gradcheck, PutsInputsBackAndLeavesDotGradAlone) {
  const Tensor x = random_leaf({3}), w = random_tensor({3});
  const auto before = x.to_vector<double>();
  EXPECT_TRUE(gradcheck([](const Inputs& in) { return in[0] * in[1]; }, {x, w}));
  EXPECT_EQ(x.to_vector<double>(), before);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Gradcheck, TakesStridedLeavesAndEmptyOnes) {
  const Tensor strided = transpose(random_tensor({2, 3}), 0, 1).detach().set_requires_grad();
  EXPECT_TRUE(gradcheck([](const Inputs& x) { return cube(x[0]); }, {strided}));
  EXPECT_TRUE(gradcheck([](const Inputs& x) { return cube(x[0]); }, {random_leaf({0, 3})}));
}

TEST(Gradcheck, SaysWhatItCannotCheck) {
  const auto twice = [](const Inputs& x) { return x[0] * 2; };
  EXPECT_THROWS_SAYING(gradcheck(twice, {random_tensor({2})}), AutogradError, "no input requires grad");
  EXPECT_THROWS_SAYING(gradcheck(twice, {random_leaf({2}) * 1}), AutogradError, "input 0 is not a leaf");
  EXPECT_THROWS_SAYING(gradcheck(twice, {random_leaf({2}, DType::f32)}), DTypeError,
                       "input 0, f32(2,) on cpu, must be");
  const Tensor expanded = expand(random_tensor({1}), {3}).detach().set_requires_grad();
  EXPECT_THROWS_SAYING(gradcheck(twice, {expanded}), ValueError, "elements of input 0 share memory");
  const auto with_stride_0 = [](std::int64_t size) {
    return random_tensor({1}).alias({size}, {0}, 0).detach().set_requires_grad();
  };
  EXPECT_THROWS_SAYING(gradcheck(twice, {with_stride_0(2)}), ValueError, "elements of input 0 share memory");
  EXPECT_TRUE(gradcheck(twice, {with_stride_0(1)})) << "which has one element";
  double drift = 0;
  EXPECT_THROWS_SAYING(gradcheck([&](const Inputs& x) { return x[0] + (drift += 1); }, {random_leaf({2})}), ValueError,
                       "gives other values for the same inputs");
  for (const int broken : {0, 1}) {  // the second or third run gives a NaN, and it alone
    int run = 0;
    const auto once = [&](const Inputs& x) { return x[0] * (++run == 2 + broken ? NAN : 1.0); };
    EXPECT_THROWS_SAYING(gradcheck(once, {random_leaf({2})}), ValueError, "gives other values for the same inputs");
  }
}

}  // namespace
}  // namespace bytetape
