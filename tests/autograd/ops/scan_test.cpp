#include "bytetape/autograd/ops/scan.h"

#include <limits>
#include <utility>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::make_tensor;
using Integers = std::vector<std::int64_t>;

TEST(Scan, SumsOfIntegersAreI64AndWrapAround) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const DType dtype : {DType::i32, DType::u8, DType::boolean}) {
    const Tensor y = cumsum(make_tensor({1, 0, 1}, {3}, dtype), 0);
    EXPECT_EQ(y.dtype(), DType::i64);
    EXPECT_EQ(y.to_vector<std::int64_t>(), (Integers{1, 1, 2}));
  }
  Tensor x = empty({2}, DType::i64);
  x.data<std::int64_t>()[0] = most;
  x.data<std::int64_t>()[1] = 2;
  EXPECT_EQ(cumsum(x, 0).to_vector<std::int64_t>(), (Integers{most, std::numeric_limits<std::int64_t>::min() + 1}));
}

TEST(Scan, SixteenBitSumsAreRoundedOnce) {
  // One row, rows of adjacent elements, and rows that are summed side by side.
  for (const auto& [shape, dim] : {std::pair(Shape{4096}, 0), {Shape{3, 4096}, 1}, {Shape{4096, 3}, 0}})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Tensor x = ones(shape, dtype).set_requires_grad(), y = cumsum(x, dim);
      const Tensor gx = grad({y}, {x}, {.seeds = {ones(shape, dtype)}})[0];
      // A sum in bf16 stays at 256, one in f16 at 2048.
      EXPECT_EQ(min(select(y, dim, 4095)).item<float>(), 4096) << dtype << shape;
      EXPECT_EQ(min(select(gx, dim, 0)).item<float>(), 4096) << dtype << shape;
    }
}

TEST(Scan, SumsOfF32AreRoundedOnce) {
  constexpr float most = 1 << 24;  // in f32, adding 1 to it has no effect
  const Tensor rows = make_tensor({most, 1, 1, most, 1, 1}, {2, 3}, DType::f32);
  EXPECT_EQ(select(cumsum(rows, 1), 1, 2).to_vector<float>(), std::vector<float>(2, most + 2));
  const Tensor columns = contiguous(transpose(rows, 0, 1));  // summed side by side
  EXPECT_EQ(select(cumsum(columns, 0), 0, 2).to_vector<float>(), std::vector<float>(2, most + 2));
}

TEST(Scan, ANaNReachesWhatFollowsIt) {
  const auto y = cumsum(make_tensor({1, std::nan(""), 2}, {3}), -1).to_vector<double>();
  EXPECT_EQ(y[0], 1);
  EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2]));
}

}  // namespace
}  // namespace bytetape
