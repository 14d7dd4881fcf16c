// Rules of products and embeddings add to a gradient that exists, in place.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using test::all_close;

Tensor weight(const Shape& shape, DType dtype = DType::f64) { return to(randn(shape), dtype).set_requires_grad(); }

Tensor squared(const Tensor& x) { return x * x; }

/// Returns the gradient of w after backward of each loss, one after the other.
Tensor accumulated(Tensor& w, const std::vector<std::function<Tensor()>>& losses) {
  w.set_grad({});
  for (const auto& loss : losses) loss().backward();
  return w.grad();
}
/// Returns the sum of the gradients of the losses, each of which is computed alone.
Tensor summed(Tensor& w, const std::vector<std::function<Tensor()>>& losses) {
  Tensor sum = zeros_like(w.detach());
  for (const auto& loss : losses) {
    w.set_grad({});
    loss().backward();
    sum = sum + w.grad();
  }
  w.set_grad({});
  return sum;
}

TEST(GradSoFar, OfAnEarlierBackwardIsAddedTo) {
  Tensor w = weight({5, 3}), x = randn({7, 3}, DType::f64), y = randn({2, 4, 3}, DType::f64);
  const std::vector<std::function<Tensor()>> losses{[&] { return sum(squared(linear(x, w))); },
                                                    [&] { return sum(squared(linear(y, w))); },
                                                    [&] { return sum(squared(matmul(x, transpose(w, 0, 1)))); }};
  EXPECT_TRUE(all_close(accumulated(w, losses), summed(w, losses)));
}

TEST(GradSoFar, StaysTheSameTensor) {
  Tensor w = weight({5, 3}), x = randn({7, 3}, DType::f64);
  const auto step = [&] { sum(linear(x, w)).backward(); };
  step();
  const Tensor first = w.grad();
  step();
  EXPECT_TRUE(w.grad().is_same(first));
  EXPECT_TRUE(all_close(first, 2 * matmul(ones({5, 7}, DType::f64), x)));
}

TEST(GradSoFar, OfGradIsTheUsesOfOneGraphAlone) {
  Tensor w = weight({4, 4}), x = randn({6, 4}, DType::f64);
  const auto loss = [&] { return sum(squared(linear(linear(linear(x, w), w), w))); };
  loss().backward();
  const Tensor left = w.grad(), before = clone(left);
  EXPECT_TRUE(all_close(grad({loss()}, {w})[0], before));
  EXPECT_TRUE(w.grad().is_same(left));
  EXPECT_EQ(left.to_vector<double>(), before.to_vector<double>());
}

TEST(GradSoFar, IsNotHeldTwice) {
  const std::int64_t n = 2048;
  Tensor w = weight({n, n}, DType::f32), x = randn({4, n});
  const auto peak_of_a_step = [&] {
    memory::reset_peaks(Device::cpu());
    const std::size_t before = test::allocated();
    sum(linear(x, w)).backward();
    return test::statistics().allocated.peak - before;
  };
  const std::size_t bytes = n * n * sizeof(float), first = peak_of_a_step();
  EXPECT_GE(first, bytes);
  EXPECT_LT(peak_of_a_step(), bytes / 2);
}

TEST(GradSoFar, OfATiedWeightIsHeldOnce) {
  const std::int64_t n = 4096, d = 64;
  Tensor w = weight({n, d}, DType::f32), tokens = randint(0, n, 16), targets = randint(0, n, 16);
  const auto loss = [&] { return linear_cross_entropy(embedding(tokens, w), w, targets, {.chunks = 4}); };
  memory::reset_peaks(Device::cpu());
  const std::size_t before = test::allocated();
  loss().backward();
  EXPECT_LT(test::statistics().allocated.peak - before, 3 * n * d * sizeof(float) / 2);
  const Tensor found = w.grad(), e = embedding(tokens, w.detach()).set_requires_grad();
  w.set_grad({});
  cross_entropy(linear(e, w), targets).backward();
  EXPECT_TRUE(all_close(found, index_add(w.grad(), 0, tokens, e.grad()), 1e-4, 1e-6));
}

TEST(GradSoFar, MeetsOtherUsesOfTheLeaf) {
  Tensor w = weight({4, 4}), x = randn({6, 4}, DType::f64), i = randint(0, 4, 9);
  const std::vector<std::function<Tensor()>> losses{
      [&] { return sum(linear(x, w)) + sum(squared(w)); },
      [&] { return sum(squared(w)) * sum(linear(x, w)) + sum(linear(linear(x, w), w)); },
      [&] { return sum(matmul(w, w)) + sum(squared(embedding(i, w))) + sum(embedding(i, matmul(w, w))); },
      [&] { return sum(matmul(w, matmul(w, w))) + sum(w * w); },
      [&] { return sum(embedding(i, w)) + sum(linear(x, w)); }};
  EXPECT_TRUE(all_close(accumulated(w, losses), summed(w, losses), 1e-10, 1e-10));
}

// A rule adds to the gradient of one leaf in place, and makes that of the other.
TEST(GradSoFar, OfTwoLeavesOfOneProductIsRight) {
  Tensor a = weight({4, 3}), b = weight({3, 5});
  const Tensor c = randn({4, 5}, DType::f64);
  const auto step = [&] { sum(matmul(a, b) * c).backward(); };
  step();
  const Tensor of_a = clone(a.grad()), of_b = clone(b.grad());
  step();
  EXPECT_TRUE(all_close(a.grad(), 2 * of_a));
  EXPECT_TRUE(all_close(b.grad(), 2 * of_b));
}

TEST(GradSoFar, OfAnotherLayoutOrWithAPaddingIndexIsRight) {
  Tensor w = weight({5, 3}), x = randn({7, 3}, DType::f64), i = randint(0, 5, 11);
  const std::vector<std::function<Tensor()>> losses{[&] { return sum(squared(linear(x, w))); },
                                                    [&] { return sum(squared(embedding(i, w, {.padding_idx = 2}))); }};
  const Tensor expected = summed(w, losses), given = transpose(randn({3, 5}, DType::f64), 0, 1);
  const Tensor before = clone(given);
  w.set_grad(given);
  for (const auto& loss : losses) loss().backward();
  EXPECT_TRUE(all_close(w.grad(), before + expected));
}

TEST(GradSoFar, AsASeedIsNotMistaken) {
  Tensor w = weight({2, 2});
  sum(3 * w).backward();
  (w * 1).backward(w.grad());
  EXPECT_TRUE(all_close(w.grad(), full({2, 2}, 6, DType::f64)));
}

/// An identity hook makes rules compute gradients of their own.
TEST(GradSoFar, ThatTheRuleReadsIsNotWritten) {
  using Case = std::function<void(Tensor & w, const Tensor& x, const Tensor& c)>;
  const std::vector<Case> cases{
      [](Tensor& w, const Tensor& x, const Tensor& c) { w.set_grad(x), linear(x, w).backward(c); },
      [](Tensor& w, const Tensor& x, const Tensor& c) { w.set_grad(c), linear(x, w).backward(w.grad()); },
      [](Tensor& w, const Tensor& x, const Tensor& c) { w.set_grad(x), matmul(w, w.grad()).backward(c); },
      [](Tensor& w, const Tensor& x, const Tensor& c) { w.set_grad(c), matmul(x, w).backward(w.grad()); },
      [](Tensor& w, const Tensor& x, const Tensor& c) { w.set_grad(c), matmul(w, x).backward(w.grad()); },
      [](Tensor& w, const Tensor&, const Tensor& c) {
        w.set_grad(c), embedding(arange(w.size(0), DType::i64), w).backward(w.grad());
      }};
  for (const std::int64_t n : {4, 64, 300})
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Tensor values = randn({n, n}), x = randn({n, n}), c = randn({n, n});
      const auto gradient = [&](bool has_hook) {
        Tensor w = clone(values).set_requires_grad();
        if (has_hook) w.register_hook([](const Tensor& g) { return g; });
        cases[i](w, clone(x), clone(c));
        return w.grad();
      };
      EXPECT_TRUE(all_close(gradient(false), gradient(true), 1e-4, 1e-3)) << "case " << i << ", n " << n;
    }
}

TEST(GradSoFar, ThatAGraphReadsIsWrittenAtTheEnd) {
  const Tensor values = randn({3, 3}, DType::f64), x = randn({3, 3}, DType::f64);
  const auto with = [&](bool has_hook) {
    Tensor w = clone(values).set_requires_grad();
    if (has_hook) w.register_hook([](const Tensor& g) { return g; });
    sum(linear(x, w)).backward();
    const Tensor h = linear(x, w) * w.grad();
    sum(linear(h, w)).backward();
    return w.grad();
  };
  EXPECT_TRUE(all_close(with(false), with(true)));
}

TEST(GradSoFar, OfALeafThatWasConvertedIsLeftAlone) {
  for (const bool is_embedding : {false, true}) {
    nn::Linear linear(3, 3, /*bias=*/false);
    nn::Embedding table(3, 3);
    const Tensor x = randn({4, 3}), i = zeros({4}, DType::i64);
    const auto loss = [&] { return is_embedding ? sum(table(i)) : sum(linear(x)); };
    nn::Module& model = is_embedding ? static_cast<nn::Module&>(table) : linear;
    loss().backward();
    const Tensor y = loss();
    model.to(DType::f64);
    const Tensor before = clone(model.parameters()[0].grad());
    EXPECT_THROW(y.backward(), Error);
    EXPECT_EQ(model.parameters()[0].grad().to_vector<double>(), before.to_vector<double>()) << is_embedding;
  }
}

TEST(GradSoFar, IsHiddenFromHooks) {
  Tensor w = weight({2, 3}), x = ones({4, 3}, DType::f64);
  std::vector<double> seen;
  w.register_hook([&](const Tensor& g) {
    seen.push_back(sum(g).item<double>());
    return g * 2;
  });
  for (int i = 0; i < 2; ++i) sum(linear(x, w)).backward();
  EXPECT_EQ(seen, (std::vector<double>{24, 24}));
  EXPECT_EQ(sum(w.grad()).item<double>(), 96);
}

TEST(GradSoFar, IsCompleteInPostHooks) {
  Tensor w = weight({2, 3}), x = ones({4, 3}, DType::f64);
  std::vector<double> seen;
  w.register_post_accumulate_grad_hook([&](const Tensor& p) { seen.push_back(sum(p.grad()).item<double>()); });
  for (int i = 0; i < 2; ++i) (sum(linear(x, w)) + sum(w)).backward();
  EXPECT_EQ(seen, (std::vector<double>{30, 60}));
}

TEST(GradSoFar, ThatIsSavedElsewhereIsCountedAsOverwritten) {
  Tensor w = weight({2, 3}), x = ones({4, 3}, DType::f64);
  sum(linear(x, w)).backward();
  const Tensor v = weight({2, 3}), y = sum(v * w.grad());
  sum(linear(x, w)).backward();
  EXPECT_THROWS_SAYING(y.backward(), AutogradError, "overwritten");
}

TEST(GradSoFar, LeavesHigherDerivativesAlone) {
  Tensor w = weight({2, 3}), x = randn({4, 3}, DType::f64);
  sum(squared(linear(x, w))).backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  const Tensor g = w.grad();
  sum(squared(linear(x, w))).backward({}, true, true);
  EXPECT_FALSE(w.grad().is_same(g));
  EXPECT_TRUE(w.grad().requires_grad());
  EXPECT_TRUE(all_close(w.grad(), 2 * g));
  w.set_grad({});  // its graph holds w
}

TEST(GradSoFar, OfF32AddsProductsOf16Bits) {
  Tensor w = weight({6, 8}, DType::f32), x = randn({5, 8});
  const auto loss = [&] {
    const Autocast autocast(DType::bf16);
    return sum(to(linear(x, w), DType::f32));
  };
  loss().backward();
  const Tensor once = clone(w.grad());
  loss().backward();
  EXPECT_EQ(w.grad().dtype(), DType::f32);
  EXPECT_TRUE(all_close(w.grad(), 2 * once, 1e-6, 1e-6));
}

TEST(GradSoFar, OfNoRowsIsKept) {
  Tensor w = weight({2, 3});
  sum(linear(ones({1, 3}, DType::f64), w)).backward();
  sum(linear(ones({0, 3}, DType::f64), w)).backward();
  sum(embedding(empty({0}, DType::i64), w)).backward();
  EXPECT_TRUE(all_close(w.grad(), ones({2, 3}, DType::f64)));
}

TEST(GradSoFar, OfALeafFrozenAfterForwardStays) {
  Tensor w = weight({5, 3}), x = randn({7, 3}, DType::f64);
  sum(linear(x, w)).backward();
  const std::vector<double> before = w.grad().to_vector<double>();
  const Tensor y = linear(x, w), z = embedding(arange(3, DType::i64), w);
  w.set_requires_grad(false);
  sum(y).backward();
  sum(z).backward();
  EXPECT_EQ(w.grad().to_vector<double>(), before);
}

// A sum passes one gradient on to both of its inputs.
TEST(GradSoFar, ThatAnotherBranchHoldsIsNotOverwritten) {
  Tensor p = weight({4, 4}), q = weight({4, 4}), w = weight({4, 4});
  const Tensor seed = randn({4, 4}, DType::f64);
  const Tensor t = p * 2, product = matmul(t, w);
  sum((t + q * 3) * seed + product).backward();
  EXPECT_TRUE(all_close(q.grad(), seed * 3));
  EXPECT_TRUE(all_close(p.grad(), 2 * (seed + matmul(ones({4, 4}, DType::f64), transpose(w, 0, 1)))));

  p.set_grad({}), w.set_grad({});
  const Tensor u = p * 2;
  sum((u + matmul(u, w)) * seed).backward();
  EXPECT_TRUE(all_close(p.grad(), 2 * (seed + matmul(seed, transpose(w, 0, 1)))));
  EXPECT_TRUE(all_close(w.grad(), matmul(transpose(u, 0, 1), seed)));
}

TEST(GradSoFar, OfAnEmbeddingLeavesThePaddingOut) {
  Tensor w = weight({4, 3});
  const Tensor index = from_vector(std::vector<std::int64_t>{2, 1, 2, 0});
  for (int i = 0; i < 3; ++i) sum(embedding(index, w, {.padding_idx = 2})).backward();
  const Tensor row = ones({1, 3}, DType::f64), none = zeros({1, 3}, DType::f64);
  EXPECT_TRUE(all_close(w.grad(), cat({3 * row, 3 * row, none, none}, 0)));
}

TEST(GradSoFar, OfATableWithAPaddingIndexIsHeldOnce) {
  const std::int64_t n = 4096, d = 64;
  Tensor w = weight({n, d}, DType::f32);
  const Tensor index = from_vector(std::vector<std::int64_t>{2, 1, 2, 0, n - 1, 1}), before = full({n, d}, 7);
  w.set_grad(clone(before));
  const Tensor y = sum(embedding(index, w, {.padding_idx = 2})), held = w.grad();
  memory::reset_peaks(Device::cpu());
  const std::size_t allocated = test::allocated();
  y.backward();
  EXPECT_LT(test::statistics().allocated.peak - allocated, n * d * sizeof(float) / 2);
  EXPECT_TRUE(w.grad().is_same(held));
  const Tensor rows = from_vector(std::vector<std::int64_t>{1, 0, n - 1, 1});
  const std::vector<float> expected = index_add(before, 0, rows, ones({4, d})).to_vector<float>();
  EXPECT_TRUE(w.grad().to_vector<float>() == expected) << "too long to print";
}

// Forward computes the gradient of the weight, before it knows what will be added to it.
TEST(GradSoFar, OfALinearCrossEntropyIsHeldBesideItsOwn) {
  const std::int64_t n = 4096, d = 64;
  Tensor w = weight({n, d}, DType::f32), x = randn({16, d}), targets = randint(0, n, 16);
  const auto peak_of_a_step = [&] {
    memory::reset_peaks(Device::cpu());
    const std::size_t before = test::allocated();
    linear_cross_entropy(x, w, targets, {.chunks = 4}).backward();
    return test::statistics().allocated.peak - before;
  };
  const std::size_t bytes = n * d * sizeof(float), first = peak_of_a_step();
  const Tensor once = clone(w.grad());
  EXPECT_GE(first, bytes);
  EXPECT_LT(first, 3 * bytes / 2);
  EXPECT_EQ(peak_of_a_step(), first);
  EXPECT_TRUE(all_close(w.grad(), 2 * once, 1e-6, 1e-6));
}

}  // namespace
}  // namespace bytetape
