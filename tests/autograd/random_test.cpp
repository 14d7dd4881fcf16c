#include "bytetape/autograd/ops/random.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;

TEST(RandomNumbers, AreNoFunctionOfWhatTheyReplace) {
  const Tensor x = random_leaf({3});
  Tensor y = x * 2, z = x * 3;
  normal_(y);
  uniform_(z, -1, 1);
  sum(y + z + x).backward();
  EXPECT_TRUE(all_close(x.grad(), ones({3}, DType::f64)));
  Tensor leaf = random_leaf({3}), spread = expand(zeros({1}), {4});
  EXPECT_THROWS_SAYING(normal_(leaf), AutogradError, "normal_: cannot write into a leaf");
  EXPECT_THROWS_SAYING(uniform_(spread), ValueError, "share memory");
}

}  // namespace
}  // namespace bytetape
