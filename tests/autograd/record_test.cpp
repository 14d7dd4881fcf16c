// What ops that write into their input check and tell the tape.
#include "bytetape/autograd/record.h"

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

TEST(InPlace, OverASavedTensorNamesTheSaverAndTheWriter) {
  const Tensor x = random_leaf({3}), w = random_leaf({3});
  Tensor y = x * 2;
  const Tensor z = y * w;
  y += 1;
  EXPECT_THROWS_SAYING(sum(z).backward(), AutogradError,
                       "mul: a tensor saved for backward, f64(3,) on cpu, was overwritten by 'add_' (version 1, saved "
                       "at 0)");
}

TEST(InPlace, OverWhatNobodySavedIsFine) {
  const Tensor x = random_leaf({3});
  Tensor y = x * 2;
  const Tensor z = y + 1;
  y += 1;
  sum(z + y).backward();
  EXPECT_TRUE(all_close(x.grad(), full({3}, 4, DType::f64)));
}

TEST(InPlace, ThroughAViewIsFoundOutByTheSaver) {
  const Tensor x = random_leaf({2, 3}), w = random_tensor({2, 3});
  Tensor data = clone(w);
  const Tensor z = x * data;
  Tensor row = select(data, 0, 1);
  row *= 2;
  EXPECT_THROWS_SAYING(sum(z).backward(), AutogradError, "was overwritten by 'mul_'");
}

TEST(InPlace, ThroughAViewThatIsAllThereIs) {
  Tensor x = random_leaf({2, 3, 4});
  const Tensor w = random_tensor({4, 2});
  Tensor y = matmul(x, w);
  relu_(y);
  sum(y).backward();
  const Tensor g = clone(x.grad());
  x.set_grad({});
  sum(relu(matmul(x, w))).backward();
  EXPECT_TRUE(all_close(x.grad(), g));
  Tensor base = x * 1, row = select(base, 0, 1);
  EXPECT_THROWS_SAYING(relu_(row), AutogradError, "cannot write through a view on the tape");
}

TEST(InPlace, IntoALeafThatRequiresGradIsAnError) {
  Tensor x = random_leaf({3});
  EXPECT_THROWS_SAYING(x += 1, AutogradError, "add_: cannot write into a leaf that requires grad, f64(3,) on cpu");
  const NoGrad no_grad;
  const Tensor before = clone(x);
  x += 1;
  EXPECT_TRUE(all_close(x, before + 1));
}

TEST(InPlace, IntoAViewOnTheTapeIsAnError) {
  const Tensor x = random_leaf({2, 3});
  const Tensor y = x * 2;
  Tensor row = select(y, 0, 0);
  EXPECT_THROWS_SAYING(row += 1, AutogradError, "add_: cannot write through a view on the tape");
  Tensor plain = random_tensor({2, 3});
  Tensor plain_row = select(plain, 0, 0);
  EXPECT_THROWS_SAYING(plain_row += select(x, 0, 0), AutogradError, "cannot write through a view on the tape");
  plain_row += 1;  // nothing to record
}

TEST(InPlace, MakesOlderViewsUnusable) {
  const Tensor x = random_leaf({2, 3});
  Tensor y = x * 2;
  const Tensor old_row = select(y, 0, 0), data = y.detach();
  y *= 3;
  EXPECT_THROWS_SAYING(old_row * 1, AutogradError,
                       "mul: an input, f64(3,) on cpu, is a view taken before 'mul_' overwrote its base on the tape");
  sum(select(y, 0, 0) + select(data * 1, 0, 0)).backward();  // newer ones, and what left the graph, are fine
  const auto g = x.grad().to_vector<double>();
  EXPECT_EQ(g, (std::vector<double>{6, 6, 6, 0, 0, 0}));
}

// The base required no grad when the view was taken: the view would silently miss it.
TEST(InPlace, MakesOlderViewsOfPlainTensorsUnusable) {
  const Tensor w = random_leaf({2, 3});
  Tensor base = random_tensor({2, 3});
  const Tensor old_row = select(base, 0, 0);
  base += w;
  EXPECT_THROWS_SAYING(sum(old_row), AutogradError, "is a view taken before 'add_'");
  EXPECT_TRUE(base.requires_grad());
}

TEST(InPlace, RejectsElementsThatShareMemory) {
  Tensor x = expand(random_tensor({1, 3}), {4, 3});
  EXPECT_THROWS_SAYING(x += 1, ValueError, "add_: cannot write into f64(4, 3) on cpu, whose elements share memory");
}

TEST(InPlace, RejectsInputsThatLieOverTheOutput) {
  Tensor x = random_tensor({3, 3});
  EXPECT_THROWS_SAYING(x += transpose(x, 0, 1), ValueError, "lies over it in memory; clone that first");
  Tensor left = select(x, 1, 0);
  const Tensor right = select(x, 1, 2), expected = left + right;
  left += right;
  EXPECT_TRUE(all_close(left, expected));
  const Tensor doubled = 2 * x;
  x += x;
  EXPECT_TRUE(all_close(x, doubled));
}

}  // namespace
}  // namespace bytetape
