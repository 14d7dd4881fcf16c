#include <string>
#include <vector>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using Ends = std::vector<std::string>;

TEST(EndOfBackward, IsReachedOnceAllGradientsAreComplete) {
  Tensor x = test::random_leaf({3}), y = test::random_leaf({3});
  Ends ends;
  int calls = 0;
  const auto note = [&](const Tensor&) {
    if (++calls > 1) return;
    at_end_of_backward([&](bool has_succeeded) {
      ends.push_back(has_succeeded && x.grad().defined() && y.grad().defined() ? "first" : "too early");
    });
    at_end_of_backward([&](bool) { ends.push_back("second"); });
    EXPECT_TRUE(ends.empty());
  };
  x.register_post_accumulate_grad_hook(note);
  y.register_post_accumulate_grad_hook(note);
  sum(x * y).backward();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(ends, (Ends{"first", "second"}));
  sum(x * y).backward();  // they are called once
  EXPECT_EQ(ends.size(), 2u);
}

TEST(EndOfBackward, IsThatOfTheInnermostBackward) {
  Tensor x = test::random_leaf({3}), inner = test::random_leaf({2});
  Ends ends;
  inner.register_post_accumulate_grad_hook(
      [&](const Tensor&) { at_end_of_backward([&](bool) { ends.push_back("inner"); }); });
  x.register_post_accumulate_grad_hook([&](const Tensor&) {
    at_end_of_backward([&](bool) { ends.push_back("outer"); });
    const GradMode recording(true);
    sum(inner * 2).backward();
    ends.push_back("hook");
  });
  sum(x * 3).backward();
  EXPECT_EQ(ends, (Ends{"inner", "hook", "outer"}));
}

TEST(EndOfBackward, TellsThatBackwardFailed) {
  Tensor x = test::random_leaf({3});
  Ends ends;
  const auto note = [&](bool has_succeeded) { ends.push_back(has_succeeded ? "success" : "failure"); };
  x.register_hook([&](const Tensor&) -> Tensor {
    at_end_of_backward(note);
    throw ValueError("stop");
  });
  EXPECT_THROWS_SAYING(sum(x * 2).backward(), ValueError, "stop");
  EXPECT_EQ(ends, (Ends{"failure"}));
}

TEST(EndOfBackward, ThatThrowsTellsLaterFunctions) {
  Tensor x = test::random_leaf({3});
  Ends ends;
  x.register_post_accumulate_grad_hook([&](const Tensor&) {
    at_end_of_backward([&](bool) { throw ValueError("end"); });
    at_end_of_backward([&](bool has_succeeded) { ends.push_back(has_succeeded ? "success" : "failure"); });
  });
  EXPECT_THROWS_SAYING(sum(x * 2).backward(), ValueError, "end");
  EXPECT_EQ(ends, (Ends{"failure"}));
}

TEST(EndOfBackward, NeedsABackward) {
  EXPECT_THROWS_SAYING(at_end_of_backward([](bool) {}), AutogradError, "no backward() runs");
}

}  // namespace
}  // namespace bytetape
