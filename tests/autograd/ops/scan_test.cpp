#include "bytetape/autograd/ops/scan.h"

#include <limits>

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
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor y = cumsum(make_tensor(std::vector<double>(4096, 1), {4096}, dtype), 0);
    EXPECT_EQ(y.to_vector<float>()[4095], 4096);  // a sum in bf16 stays at 256, one in f16 at 2048
  }
}

TEST(Scan, ANaNReachesWhatFollowsIt) {
  const auto y = cumsum(make_tensor({1, std::nan(""), 2}, {3}), -1).to_vector<double>();
  EXPECT_EQ(y[0], 1);
  EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2]));
}

}  // namespace
}  // namespace bytetape
