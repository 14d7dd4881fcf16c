// Ops of transformers whose inputs, results or scores have more than 2^31 elements.
#include <cmath>

#include "bytetape/core/philox.h"
#include "tests/cuda/large_tensors.h"

namespace bytetape::test {
namespace {

class CudaLargeTensorsOfTransformers : public CudaLargeTensors {
 protected:
  static std::vector<float> row(const Tensor& x, std::int64_t i) { return select(x.detach(), 0, i).to_vector<float>(); }
  static Tensor rows_from(const Tensor& x, std::int64_t first) { return narrow(x, 0, first, window); }
  static void expect_equal(const Tensor& actual, const Tensor& expected) {
    ASSERT_EQ(actual.shape(), expected.shape());
    EXPECT_FALSE(any(actual != expected).item<bool>());
  }
  static constexpr std::int64_t places[] = {0, far - window / 2, rows - window};
};

TEST_F(CudaLargeTensorsOfTransformers, Embeddings) {
  constexpr std::int64_t words = 1000;
  const Tensor weight = draw({words, columns}).set_requires_grad();
  const Tensor index = randint(0, words - 3, {rows}, DType::i64, gpu);
  const auto put = [&](std::int64_t at, std::int64_t word) { fill_(narrow(index, 0, at, 1), word); };
  put(far, words - 3), put(rows - 1, words - 2), put(5, words - 1), put(rows - 2, words - 1);
  const Tensor y = embedding(index, weight), gy = draw(y.shape());
  for (const std::int64_t first : places)
    expect_equal(rows_from(y.detach(), first), embedding(rows_from(index, first), weight.detach()));
  y.backward(gy);
  EXPECT_EQ(row(weight.grad(), words - 3), row(gy, far));
  EXPECT_EQ(row(weight.grad(), words - 2), row(gy, rows - 1));
  EXPECT_EQ(row(weight.grad(), words - 1), row(narrow(gy, 0, 5, 1) + narrow(gy, 0, rows - 2, 1), 0));
}

TEST_F(CudaLargeTensorsOfTransformers, AllRowsByIndex) {
  const NoGrad no_grad;
  const Tensor x = draw({rows, columns}), backwards = flip(arange(rows, DType::i64, gpu), {0});
  const auto expect_flipped = [&](const Tensor& y, const char* name) {
    SCOPED_TRACE(name);
    for (const std::int64_t first : places)
      expect_equal(rows_from(y, first), flip(rows_from(x, rows - window - first), {0}));
  };
  expect_flipped(flip(x, {0}), "flip");
  expect_flipped(index_select(x, 0, backwards), "index_select");
  expect_flipped(gather(x, 0, expand(unsqueeze(backwards, 1), x.shape())), "gather");
  expect_flipped(index_add(zeros_like(x), 0, backwards, x), "index_add");
  expect_flipped(index_copy(zeros_like(x), 0, backwards, x), "index_copy");
  const Tensor y = contiguous(transpose(x, 0, 1));
  for (const std::int64_t first : places)
    expect_equal(narrow(y, 1, first, window), transpose(rows_from(x, first), 0, 1));
}

TEST_F(CudaLargeTensorsOfTransformers, ReductionsOverRows) {
  const Tensor x = zeros({rows, columns}, DType::bf16, gpu);
  const auto put = [&](std::int64_t i, std::int64_t j, double v) { fill_(select(select(x, 0, i), 0, j), v); };
  put(0, 7, 1), put(far, 6, 2), put(rows - 1, 5, 3);
  std::vector<float> sums(columns, 0);
  sums[7] = 1, sums[6] = 2, sums[5] = 3;
  EXPECT_EQ(sum(x, {0}).to_vector<float>(), sums);
  EXPECT_EQ(max(x, {0}).to_vector<float>(), sums);
  const Tensor indices = max_with_indices(x, 0).indices;
  EXPECT_EQ(narrow(indices, 0, 5, 3).to_vector<std::int64_t>(), (std::vector<std::int64_t>{rows - 1, far, 0}));
  const Tensor running = cumsum(x, 0);
  const auto values = [](const Tensor& t, std::int64_t i) {
    return narrow(select(t, 0, i), 0, 5, 4).to_vector<float>();
  };
  EXPECT_EQ(values(running, far - 1), (std::vector<float>{0, 0, 1, 0}));
  EXPECT_EQ(values(running, far), (std::vector<float>{0, 2, 1, 0}));
  EXPECT_EQ(values(running, rows - 2), (std::vector<float>{0, 2, 1, 0}));
  EXPECT_EQ(values(running, rows - 1), (std::vector<float>{3, 2, 1, 0}));
  const Tensor p = softmax(x, 0);
  const auto expect_probability = [&](std::int64_t i, std::size_t j, double v) {
    const double expected = std::exp(v) / (static_cast<double>(rows - 1) + std::exp(sums[j + 5]));
    EXPECT_NEAR(values(p, i)[j] / expected, 1, 0.01) << i << ", " << j;
  };
  expect_probability(rows - 1, 0, 3), expect_probability(far, 1, 2), expect_probability(0, 2, 1);
  expect_probability(rows - 1, 1, 0), expect_probability(rows - 1, 3, 0);
}

TEST_F(CudaLargeTensorsOfTransformers, ResultsOfProducts) {
  const Tensor x = draw({rows, 16}), weight = draw({columns, 16}), bias = draw({columns});
  expect_rows(
      "linear", [&](const Tensor& t) { return linear(t, weight, bias); }, x);
  const auto scores = [](const Tensor& t) { return matmul(t, transpose(t, 1, 2)); };
  expect_rows("matmul", scores, draw({2049, 1024, 16}), 2048, 2);

  // Gradients that are 0 elsewhere, so that a single product is left.
  const Tensor gy = zeros({rows, columns}, DType::bf16, gpu);
  fill_(select(select(gy, 0, far), 0, 6), 2), fill_(select(select(gy, 0, rows - 1), 0, 5), 4);
  const auto leaf = [](const Tensor& t) { return t.detach().set_requires_grad(); };
  const std::vector<Tensor> leaves{leaf(x), leaf(weight), leaf(bias)};
  const std::vector<Tensor> g = grad({linear(leaves[0], leaves[1], leaves[2])}, leaves, {.seeds = {gy}});
  EXPECT_EQ(row(g[0], far), row(weight * 2, 6));
  EXPECT_EQ(row(g[0], rows - 1), row(weight * 4, 5));
  EXPECT_EQ(norm(select(g[0], 0, rows - 2)).item<float>(), 0);
  EXPECT_EQ(row(g[1], 6), row(narrow(x, 0, far, 1) * 2, 0));
  EXPECT_EQ(row(g[1], 5), row(narrow(x, 0, rows - 1, 1) * 4, 0));
  EXPECT_EQ(norm(select(g[1], 0, 7)).item<float>(), 0);
  EXPECT_EQ(narrow(g[2], 0, 5, 3).to_vector<float>(), (std::vector<float>{4, 2, 0}));
}

// The mask is drawn from the generator's words in row-major order, and again in backward.
TEST_F(CudaLargeTensorsOfTransformers, Dropout) {
  constexpr std::uint64_t seed = 9;
  constexpr double p = 0.25;
  Generator generator(seed);
  const Tensor x = ones({rows, columns}, DType::bf16, gpu).set_requires_grad();
  const Tensor y = dropout(x, p, true, generator);
  y.backward(ones_like(y));
  for (const std::int64_t first : places) {
    SCOPED_TRACE(first);
    const std::vector<float> values = rows_from(y.detach(), first).to_vector<float>();
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const std::uint64_t i = static_cast<std::uint64_t>(first * columns) + k;
      wrong += (values[k] != 0) != dropout_keeps(philox(seed, i / 4)[i % 4], dropout_threshold(p));
    }
    EXPECT_EQ(wrong, 0u);
    expect_equal(rows_from(x.grad(), first), rows_from(y.detach(), first));
  }
}

TEST_F(CudaLargeTensorsOfTransformers, LogitsOfAWideVocabulary) {
  constexpr std::int64_t words = 50257, middle = boundary / words;
  const Tensor x = draw({middle + 170, words}) * 4;
  const std::vector<std::pair<std::string, LargeFunction>> ops{
      {"softmax", [](const Tensor& t) { return softmax(t, 1); }},
      {"log_softmax", [](const Tensor& t) { return log_softmax(t, 1); }},
      {"topk", [](const Tensor& t) { return topk(t, 5, 1).values; }},
      {"cross_entropy",
       [](const Tensor& t) { return cross_entropy(t, argmax(-t.detach(), 1), {.reduction = Reduction::none}); }}};
  for (const auto& [name, f] : ops) expect_rows(name, f, x, middle, 6);
}

// One chunk has all logits. Targets that are ignored leave the loss and the gradients of the last rows.
TEST_F(CudaLargeTensorsOfTransformers, ALossOverAWideVocabulary) {
  constexpr std::int64_t words = 50257, tokens = boundary / words + 170;
  const Tensor x = draw({tokens, 64}), weight = draw({words, 64});
  const auto last = [](const Tensor& t) { return clone(narrow(t, 0, tokens - window, window)); };
  const Tensor target = full(tokens, -100, DType::i64, gpu);
  copy_(narrow(target, 0, tokens - window, window), randint(0, words, {window}, DType::i64, gpu));
  const auto results = [&](const Tensor& of_x, const Tensor& of_target) {
    const std::vector<Tensor> leaves{of_x.detach().set_requires_grad(), weight.detach().set_requires_grad()};
    const Tensor loss =
        linear_cross_entropy(leaves[0], leaves[1], of_target, {.reduction = Reduction::sum, .chunks = 1});
    std::vector<Tensor> all = grad({loss}, leaves);
    all.push_back(loss.detach());
    return all;
  };
  const std::vector<Tensor> all = results(x, target), alone = results(last(x), last(target));
  EXPECT_TRUE(all_close(last(all[0]), alone[0], 0.02, 0.02));
  EXPECT_TRUE(all_close(all[1], alone[1], 0.02, 0.02));
  EXPECT_TRUE(all_close(all[2], alone[2], 0.02));
  EXPECT_EQ(norm(select(all[0], 0, 0)).item<float>(), 0);
}

// 16 heads of 12,288 queries and keys. The last head has the scores from 2^31 on.
TEST_F(CudaLargeTensorsOfTransformers, ScoresOfAttention) {
  constexpr std::int64_t heads = 16, tokens = 12288;
  static_assert((heads - 1) * tokens * tokens > boundary);
  const Tensor x = draw({1, heads, tokens, 64}), mask = ones({1, heads, tokens, tokens}, DType::boolean, gpu);
  const auto last = [](const Tensor& t) { return clone(narrow(t, 1, heads - 1, 1)); };
  copy_(narrow(mask, 1, heads - 1, 1), draw({1, 1, tokens, tokens}) > 0);
  const auto attention = [](const AttentionOptions& options) -> LargeFunction {
    return [options](const Tensor& t) { return scaled_dot_product_attention(t, t, t, options); };
  };
  const auto compare = [&](const char* name, const LargeFunction& of_all, const LargeFunction& of_one) {
    SCOPED_TRACE(name);
    const LargeResult all = evaluate_large(of_all, x), alone = evaluate_large(of_one, last(x));
    EXPECT_TRUE(all_close(last(all.y), alone.y, 0.02, 0.02));
    EXPECT_TRUE(all_close(last(all.grad), alone.grad, 0.02, 0.05));
  };
  const LargeFunction fused = attention({.causal = true}), products = attention({.causal = true, .fused = false});
  compare("fused", fused, fused);
  compare("products", products, products);
  compare("mask", attention({.mask = mask}), attention({.mask = last(mask)}));
}

// With equal scores, and columns of ones at every 64th key, a result counts the keys that are left.
TEST_F(CudaLargeTensorsOfTransformers, DropoutOfAttention) {
  constexpr std::int64_t heads = 16, tokens = 12288, width = 64;
  constexpr std::uint64_t seed = 9;
  constexpr double p = 0.5;
  const NoGrad no_grad;
  Generator generator(seed);
  const Tensor q = zeros({1, heads, tokens, 8}, DType::f32, gpu);
  const Tensor v = expand(repeat(eye(width, DType::f32, gpu), {tokens / width, 1}), {1, heads, tokens, width});
  const Tensor y = scaled_dot_product_attention(q, q, v, {.dropout = p, .generator = &generator, .fused = false});
  for (const std::int64_t number : {std::int64_t{0}, boundary / tokens, heads * tokens - 1}) {
    std::vector<double> kept(width, 0);
    for (std::int64_t j = 0; j < tokens; ++j) {
      const auto i = static_cast<std::uint64_t>(number * tokens + j);
      kept[static_cast<std::size_t>(j % width)] += dropout_keeps(philox(seed, i / 4)[i % 4], dropout_threshold(p));
    }
    const Tensor of_query = select(select(select(y, 0, 0), 0, number / tokens), 0, number % tokens);
    EXPECT_TRUE(all_close((of_query * (tokens * (1 - p))).to_vector<double>(), kept, 0, 0.01)) << "row " << number;
  }
}

// Row 64 of the caches begins at element 2^31.
TEST_F(CudaLargeTensorsOfTransformers, CachesOfKeysAndValues) {
  constexpr std::int64_t n = 65, heads = 8, capacity = 65536, size = 64, position = 65000;
  static_assert((n - 1) * heads * capacity * size == boundary);
  const NoGrad no_grad;
  const Tensor keys = draw({n, heads, capacity, size}), values = draw({n, heads, capacity, size});
  const Tensor q = draw({n, heads, 1, size}) * 8, k = draw({n, heads, 1, size}), v = draw({n, heads, 1, size});
  const Tensor positions = full(n, position, DType::i64, gpu);
  const auto of_row = [](const Tensor& t, std::int64_t i) { return clone(narrow(t, 0, i, 1)); };
  const auto alone = [&](std::int64_t i) {
    return cached_attention(of_row(q, i), of_row(k, i), of_row(v, i), of_row(keys, i), of_row(values, i),
                            of_row(positions, i));
  };
  const std::vector<Tensor> expected{alone(0), alone(n - 1)};
  const Tensor y = cached_attention(q, k, v, keys, values, positions);
  EXPECT_TRUE(all_close(of_row(y, 0), expected[0], 0.02, 2e-3));
  EXPECT_TRUE(all_close(of_row(y, n - 1), expected[1], 0.02, 2e-3));
  expect_equal(narrow(keys, 2, position, 1), k);
  expect_equal(narrow(values, 2, position, 1), v);
}

}  // namespace
}  // namespace bytetape::test
