// Ops defined outside the library, with what its public headers offer.
#include <bytetape/bytetape.h>

#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

/// exp(x): saves its result; the rule is made of ops.
struct GrowBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * y.get(); }
};
Tensor grow(const Tensor& x) {
  const memory::Op<"grow"> op;
  check_floating(x);
  Tensor y = exp(x.detach());
  if (auto* node = record<GrowBackward>(y, x)) node->y.save_output(y);
  return y;
}

/// x, in place, times 2.
struct TwiceBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * 2; }
};
Tensor& twice_(Tensor& x) {
  const memory::Op<"twice_"> op;
  check_in_place(x);
  {
    const NoGrad no_grad;
    Tensor data = x.detach();
    data *= 2;
  }
  record_in_place<TwiceBackward>(x, x);
  return x;
}

/// The sum of tensors of one shape.
struct TotalBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override {
    for (std::size_t i = 0; i < gx.size(); ++i)
      if (gx.needs(i)) gx[i] = gy[0];
  }
};
Tensor total(const std::vector<Tensor>& x) {
  const memory::Op<"total"> op;
  Tensor y = zeros_like(x[0].detach());
  for (const Tensor& t : x) y += t.detach();
  record_list<TotalBackward>(y, x);
  return y;
}

/// x and x^2 from one node.
struct PowersBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] + gy[1] * x.get() * 2; }
};
std::pair<Tensor, Tensor> powers(const Tensor& x) {
  const memory::Op<"powers"> op;
  Tensor first = clone(x.detach()), second = x.detach() * x.detach();
  if (auto* node = record_outputs<PowersBackward>({first, second}, x)) node->x.save(x);
  return {first, second};
}

TEST(CustomOp, ThatSavesItsOutputDifferentiatesTwice) {
  const auto fn = [](const std::vector<Tensor>& x) { return grow(x[0]); };
  const auto first = gradcheck(fn, {random_leaf({2, 3})});
  EXPECT_TRUE(first) << first.message;
  const auto second = gradgradcheck(fn, {random_leaf({2, 3})});
  EXPECT_TRUE(second) << second.message;
}

TEST(CustomOp, ThatSavesItsOutputDoesNotOwnItself) {
  const std::size_t before = test::allocated();
  grow(random_leaf({100}));
  EXPECT_EQ(test::allocated(), before);
}

TEST(CustomOp, IsNamedInErrors) {
  EXPECT_THROWS_SAYING(grow(arange(3)), DTypeError, "grow: expected a floating dtype, got i64(3,) on cpu");
  const Tensor x = random_leaf({3});
  Tensor y = grow(x);
  const Tensor z = sum(y);
  twice_(y);
  EXPECT_THROWS_SAYING(z.backward(), AutogradError,
                       "grow: a tensor saved for backward, f64(3,) on cpu, was "
                       "overwritten by 'twice_'");
}

TEST(CustomOp, MayWorkInPlace) {
  const Tensor x = random_leaf({3});
  Tensor y = x + 0;
  twice_(twice_(y));
  sum(y).backward();
  EXPECT_TRUE(all_close(y, (4 * x).detach()));
  EXPECT_TRUE(all_close(x.grad(), full({3}, 4, DType::f64)));
}

TEST(CustomOp, MayTakeAnyNumberOfInputs) {
  std::vector<Tensor> x;
  for (int i = 0; i < 9; ++i) x.push_back(i % 2 ? random_leaf({3}) : random_tensor({3}));
  sum(total(x) * 3).backward();
  for (int i = 0; i < 9; ++i) {
    const Tensor g = x[static_cast<std::size_t>(i)].grad();
    ASSERT_EQ(g.defined(), i % 2 == 1);
    if (i % 2 == 1) { EXPECT_TRUE(all_close(g, full({3}, 3, DType::f64))); }
  }
}

TEST(CustomOp, MayHaveSeveralOutputs) {
  const auto both = [](const std::vector<Tensor>& x) {
    const auto [first, second] = powers(x[0]);
    return first * 3 + second;
  };
  EXPECT_TRUE(gradcheck(both, {random_leaf({4})}));
  const auto only_second = [](const std::vector<Tensor>& x) { return powers(x[0]).second; };
  EXPECT_TRUE(gradcheck(only_second, {random_leaf({4})}));
  EXPECT_TRUE(gradgradcheck(only_second, {random_leaf({4})}));
}

/// The positive part of x, and where it is not zero; takes a missing gradient as it comes.
struct PositiveBackward final : Node {
  Saved places{this};
  bool takes_undefined() const override { return true; }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gy[0].defined()) gx[0] = gy[0] * to(places.get(), gy[0].dtype());
  }
};
std::pair<Tensor, Tensor> positive(const Tensor& x) {
  const memory::Op<"positive"> op;
  Tensor y = relu(x.detach()), places = x.detach() > 0;
  if (auto* node = record_outputs<PositiveBackward>({y, places}, x)) node->places.save(places);
  return {y, places};
}

TEST(CustomOp, MayHaveOutputsWithoutAGradient) {
  const Tensor x = random_leaf({50});
  const auto [y, places] = positive(x);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(places.requires_grad());
  sum(y).backward();
  EXPECT_TRUE(all_close(x.grad(), to(places, DType::f64)));
}

TEST(CustomOp, MayTakeUndefinedGradients) {
  struct FirstOfTwo final : Node {
    bool takes_undefined() const override { return true; }
    void backward(const Grads& gy, InputGrads& gx) override {
      EXPECT_FALSE(gy[1].defined());
      gx[0] = gy[0];
    }
  };
  const Tensor x = random_leaf({3}), first = clone(x.detach()), second = clone(x.detach());
  record_outputs<FirstOfTwo>({first, second}, x);
  sum(first * 2).backward();
  EXPECT_TRUE(all_close(x.grad(), full({3}, 2, DType::f64)));
}

TEST(CustomOp, RunsOnMeta) {
  const Tensor x = zeros({5, 2}, DType::f32, Device::meta()).set_requires_grad();
  sum(grow(x)).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_TRUE(x.grad().device().is_meta);
}

}  // namespace
}  // namespace bytetape
