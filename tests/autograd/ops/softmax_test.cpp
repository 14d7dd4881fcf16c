#include "bytetape/autograd/ops/softmax.h"

#include <cmath>
#include <limits>

#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;

TEST(Softmax, NeitherOverflowsNorLeaksThroughMasks) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Tensor x = make_tensor({3e4, 3e4, -inf, 1e4, -inf, -3e4}, {2, 3}, dtype);
    EXPECT_TRUE(all_close(softmax(x, 1).to_vector<double>(), {0.5, 0.5, 0, 1, 0, 0}, 0, 0));
    EXPECT_EQ(log_softmax(x, 1).to_vector<double>()[4], -inf);
    const auto bad = softmax(make_tensor({1, std::nan(""), 2, 0, 1, 2}, {2, 3}, dtype), 1).to_vector<double>();
    EXPECT_TRUE(std::isnan(bad[0]) && std::isnan(bad[1]) && std::isnan(bad[2]) && !std::isnan(bad[3]));
  }
}

}  // namespace
}  // namespace bytetape
