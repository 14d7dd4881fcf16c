#include "bytetape/autograd/ops/einsum.h"

#include <gtest/gtest.h>

#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/reduce.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

TEST(Einsum, TakesDotsInOneInputAndDotsWithoutDims) {
  const Tensor x = test::random_tensor({2, 3}), y = test::random_tensor({3});
  EXPECT_TRUE(test::all_close(einsum("...i,i", x, y), matmul(x, y)));
  EXPECT_TRUE(test::all_close(einsum("...i,...i->...", y, y), sum(y * y)));
}

}  // namespace
}  // namespace bytetape
