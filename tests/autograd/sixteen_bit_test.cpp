// 16-bit floats: numbers and sums beyond their range are computed in f32, as PyTorch does.
#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

double only(const Tensor& x) { return to(x, DType::f64).item<double>(); }

TEST(SixteenBits, NumbersAreNotRounded) {
  const Tensor small = full({}, 0.001, DType::f16), large = full({}, 60000, DType::f16);
  EXPECT_NEAR(only(small * 1e6), 1000, 1);
  EXPECT_NEAR(only(1e6 * small), 1000, 1);
  EXPECT_NEAR(only(small * 65536.0), 65.5, 0.1);
  EXPECT_NEAR(only(large / 100000.0), 0.6, 1e-3);
  EXPECT_NEAR(only(1e6 / large), 16.67, 0.02);
  const Tensor many = full({300, 401}, 0.001, DType::f16) * 1e6;  // a planned walk, in several pieces
  EXPECT_NEAR(only(max(many)), 1000, 1);
  EXPECT_NEAR(only(min(many)), 1000, 1);
}

TEST(SixteenBits, ComparisonsRoundTheNumber) {
  for (const DType t : {DType::f16, DType::bf16}) {
    EXPECT_TRUE((full({2}, 0.1, t) == 0.1).to_vector<bool>()[0]);
    EXPECT_FALSE((full({2}, 0.1, t) < 0.1).to_vector<bool>()[0]);
    EXPECT_FALSE((full({2}, 0.1, t) > 0.1).to_vector<bool>()[0]);
  }
}

TEST(SixteenBits, VarianceOfManyIsFinite) {
  const Tensor x = randn({100000});
  for (const DType t : {DType::f16, DType::bf16}) {
    const Tensor wide = to(to(x, t), DType::f64);
    EXPECT_NEAR(only(var(to(x, t))), var(wide).item<double>(), 0.01);
  }
}

TEST(SixteenBits, GradientOfAMeanOfManyIsNotZero) {
  Tensor x = to(randn({70000}), DType::f16).set_requires_grad();
  mean(x).backward();
  EXPECT_NEAR(only(max(x.grad())), 1.0 / 70000, 1e-7);
}

}  // namespace
}  // namespace bytetape
