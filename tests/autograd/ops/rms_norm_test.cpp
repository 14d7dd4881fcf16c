#include "bytetape/autograd/ops/norm/rms_norm.h"

#include <limits>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

// PyTorch's default: the epsilon of the dtype in which rows are accumulated.
TEST(RmsNorm, AddsTheEpsilonOfTheDType) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const double eps =
        dtype == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
    const Tensor x = test::random_tensor({4, 6}, dtype) * 1e-4;
    EXPECT_EQ(rms_norm(x, 6).to_vector<double>(), rms_norm(x, 6, {}, eps).to_vector<double>()) << dtype;
    EXPECT_NE(rms_norm(x, 6).to_vector<double>(), rms_norm(x, 6, {}, 0).to_vector<double>()) << dtype;
  }
}

TEST(RmsNorm, KeepsTheWeightForTheInputAlone) {
  const Tensor x = randn({5, 3}), weight = ones(3).set_requires_grad();
  const Tensor y = rms_norm(x, 3, weight);
  EXPECT_NE(weight.storage().role(), memory::Role::saved);
  EXPECT_EQ(x.storage().role(), memory::Role::saved);
}

}  // namespace
}  // namespace bytetape
