#include "bytetape/autograd/saved_tensor_hooks.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using Unpack = SavedTensorHooks::Unpack;
using test::all_close;

/// A net whose ops save inputs and outputs, and a leaf.
struct Example {
  Tensor x = randn({6, 5}, DType::f64).set_requires_grad(), w = randn({5, 5}, DType::f64).set_requires_grad();
  Tensor loss() const { return sum(tanh(matmul(sigmoid(x) * x, w)) * exp(x)); }
};

/// Puts a copy in place of each tensor, and counts.
struct Copies {
  std::shared_ptr<int> packed = std::make_shared<int>(0), unpacked = std::make_shared<int>(0);
  Unpack operator()(const Tensor& x) const {
    ++*packed;
    return [copy = clone(x), n = unpacked] {
      ++*n;
      return copy;
    };
  }
};

TEST(SavedTensorHooks, LeaveGradientsAsTheyAre) {
  const Example e;
  const std::vector<Tensor> plain = grad({e.loss()}, {e.x, e.w});
  const Copies copies;
  Tensor loss;
  {
    const SavedTensorHooks hooks(copies);
    loss = e.loss();
  }
  EXPECT_GT(*copies.packed, 4);
  EXPECT_EQ(*copies.unpacked, 0);
  const std::vector<Tensor> hooked = grad({loss}, {e.x, e.w});
  EXPECT_EQ(*copies.unpacked, *copies.packed);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(all_close(hooked[i], plain[i], 0, 0));
}

TEST(SavedTensorHooks, KeepTheGraphForHigherDerivatives) {
  const Example e;
  const auto second = [&](const Tensor& loss) {
    const Tensor g = grad({loss}, {e.x}, {.create_graph = true})[0];
    return grad({sum(g * g)}, {e.x, e.w});
  };
  const std::vector<Tensor> plain = second(e.loss());
  const SavedTensorHooks hooks(Copies{});
  const std::vector<Tensor> hooked = second(e.loss());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(all_close(hooked[i], plain[i], 0, 0));
}

TEST(SavedTensorHooks, RecordNoOpsOfTheirOwn) {
  const Example e;
  int calls = 0;
  const auto records = [&](const Tensor& t) { return ++calls, (t * 1).requires_grad(); };
  const SavedTensorHooks hooks([&](const Tensor& t) -> Unpack {
    EXPECT_FALSE(records(t));
    return [&, t] {
      EXPECT_FALSE(records(t));
      return t;
    };
  });
  const Tensor g = grad({e.loss()}, {e.x}, {.create_graph = true})[0];
  grad({sum(g * g)}, {e.x});
  EXPECT_GT(calls, 8);
}

TEST(SavedTensorHooks, UnpackOnceWhereTheGraphStays) {
  const Example e;
  const Copies copies;
  const SavedTensorHooks hooks(copies);
  const Tensor loss = e.loss();
  const Tensor first = grad({loss}, {e.x}, {.retain_graph = true})[0];
  EXPECT_TRUE(all_close(grad({loss}, {e.x})[0], first, 0, 0));
  EXPECT_LE(*copies.unpacked, *copies.packed);
}

TEST(SavedTensorHooks, MayKeepLess) {
  const auto saved_bytes = [](bool lowers) {
    const Tensor x = randn({256, 256}).set_requires_grad();
    const SavedTensorHooks hooks([&](const Tensor& t) -> Unpack {
      if (!lowers) return nullptr;
      return [low = to(t, DType::bf16), dtype = t.dtype()] { return to(low, dtype); };
    });
    const std::size_t before = test::allocated();
    const Tensor y = sum(exp(exp(x)));
    return test::allocated() - before;
  };
  const std::size_t kept = saved_bytes(false), low = saved_bytes(true);
  EXPECT_NEAR(static_cast<double>(low), static_cast<double>(kept) / 2, 2048);
}

TEST(SavedTensorHooks, AreNotGivenLeavesThatRequireGrad) {
  const Tensor w = randn({4, 4}).set_requires_grad(), x = randn({4, 4});
  int given = 0;
  const SavedTensorHooks hooks([&](const Tensor& t) -> Unpack {
    EXPECT_FALSE(t.is_same(w));
    ++given;
    return nullptr;
  });
  sum(w * x).backward();
  EXPECT_EQ(given, 1);
}

TEST(SavedTensorHooks, LetGoOfWhatIsNotNeeded) {
  const auto alive = std::make_shared<int>(0);
  {
    const Tensor x = randn({4}).set_requires_grad();
    const SavedTensorHooks hooks([&](const Tensor& t) -> Unpack { return [t, alive] { return t; }; });
    const Tensor y = exp(x);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

// Rules write over a saved tensor that nobody else holds, but not over memory that is not the library's.
TEST(SavedTensorHooks, MayLendMemoryThatStaysAsItIs) {
  const Tensor x = randn({4, 5}, DType::f64).set_requires_grad();
  std::vector<double> lent;
  const SavedTensorHooks hooks([&](const Tensor& t) -> Unpack {
    lent = t.to_vector<double>();
    return [&lent, shape = t.shape()] { return from_blob(lent.data(), shape, DType::f64); };
  });
  const Tensor y = tanh(x);
  const std::vector<double> before = y.to_vector<double>();
  sum(y).backward();
  EXPECT_EQ(lent, before);
  EXPECT_TRUE(all_close(x.grad(), (1 - y * y).detach()));
}

TEST(SavedTensorHooks, AreOfferedWhatACheckpointKeeps) {
  const Example e;
  const std::vector<Tensor> plain = grad({e.loss()}, {e.x, e.w});
  const Copies copies;
  const SavedTensorHooks hooks(copies);
  const Tensor h = e.x * 1.0;
  const Tensor loss = checkpoint([&](const Tensor& x) { return sum(tanh(matmul(sigmoid(x) * x, e.w)) * exp(x)); }, h);
  EXPECT_EQ(*copies.packed, 1) << "its input";
  const std::vector<Tensor> hooked = grad({loss}, {e.x, e.w});
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(all_close(hooked[i], plain[i], 0, 0));
}

TEST(SavedTensorHooks, OfScopesInEachOtherTheInnermostCounts) {
  const Tensor x = randn({4}).set_requires_grad();
  const Copies outer, inner;
  const SavedTensorHooks around(outer);
  {
    const SavedTensorHooks hooks(inner);
    exp(x);
  }
  exp(x);
  EXPECT_EQ(*inner.packed, 1);
  EXPECT_EQ(*outer.packed, 1);
}

TEST(SavedTensorHooks, MustGiveBackWhatTheyWereGiven) {
  const Example e;
  const auto run = [&](const std::function<Tensor(const Tensor&)>& spoilt) {
    const SavedTensorHooks hooks([&](const Tensor& t) -> Unpack { return [=] { return spoilt(t); }; });
    e.loss().backward();
  };
  EXPECT_THROWS_SAYING(SavedTensorHooks nothing(nullptr), ValueError, "pack must be callable");
  const char* words = "a hook for saved tensors gave back";
  EXPECT_THROWS_SAYING(run([](const Tensor&) { return Tensor(); }), AutogradError, words);
  EXPECT_THROWS_SAYING(run([](const Tensor& t) {
                         return randn({t.size(0) + 1, 5}, DType::f64);
                       }),
                       AutogradError, "where it was given f64(");
  EXPECT_THROWS_SAYING(run([](const Tensor& t) { return to(t, DType::f32); }), AutogradError, words);
  EXPECT_THROWS_SAYING(run([](const Tensor& t) { return empty(t.shape(), DType::f64, Device::meta()); }), AutogradError,
                       words);
}

}  // namespace
}  // namespace bytetape
