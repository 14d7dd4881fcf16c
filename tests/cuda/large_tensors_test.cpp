// Ops on tensors of more than 2^31 elements.
#include "tests/cuda/large_tensors.h"

namespace bytetape::test {
namespace {

TEST_F(CudaLargeTensors, OfOpsOnRows) {
  const Tensor x = draw({rows, columns}), weight = draw({8, columns}) * 0.03,
               ones_of_row = ones(columns, DType::bf16, gpu);
  const Tensor turned = flip(arange(columns, DType::i64, gpu), {0});
  const auto of_row = [&](const Tensor& t) { return expand(unsqueeze(turned, 0), t.shape()); };
  const std::vector<std::pair<std::string, LargeFunction>> ops{
      {"gelu", [](const Tensor& t) { return gelu(t); }},
      {"softplus", [](const Tensor& t) { return softplus(t); }},
      {"round", [](const Tensor& t) { return round(t); }},
      {"logical_not", [](const Tensor& t) { return logical_not(t > 0); }},
      {"masked_fill", [](const Tensor& t) { return masked_fill(t, t > 0.5, 3); }},
      {"softmax", [](const Tensor& t) { return softmax(t * 8, 1); }},
      {"log_softmax", [](const Tensor& t) { return log_softmax(t, 1); }},
      {"logsumexp", [](const Tensor& t) { return logsumexp(t * 8, {1}); }},
      {"prod", [](const Tensor& t) { return prod(t * 0.01 + 1, {1}); }},
      {"any", [](const Tensor& t) { return any(t > 3, {1}); }},
      {"max_with_indices", [](const Tensor& t) { return max_with_indices(t, 1).values; }},
      {"cumsum", [](const Tensor& t) { return cumsum(t, 1); }},
      {"topk", [](const Tensor& t) { return topk(t, 5, 1).values; }},
      {"layer_norm", [&](const Tensor& t) { return layer_norm(t, {columns}, ones_of_row, ones_of_row); }},
      {"rms_norm", [&](const Tensor& t) { return rms_norm(t, {columns}, ones_of_row); }},
      {"flip", [](const Tensor& t) { return flip(t, {1}); }},
      {"roll", [](const Tensor& t) { return roll(t, {5}, {1}); }},
      {"transpose",
       [](const Tensor& t) {
         return contiguous(transpose(view(t, {-1, 32, 32}), 1, 2));
       }},
      {"tril",
       [](const Tensor& t) {
         return tril(view(t, {-1, 32, 32}));
       }},
      {"pad",
       [](const Tensor& t) {
         return pad(t, {1, 2});
       }},
      {"cat",
       [](const Tensor& t) {
         return cat({narrow(t, 1, 500, 524), narrow(t, 1, 0, 500)}, 1);
       }},
      // Backward sorts the indices, in 32 bytes each.
      {"gather", [&](const Tensor& t) { return gather(t, 1, narrow(of_row(t), 1, 0, 100)); }},
      {"scatter_add", [&](const Tensor& t) { return scatter_add(t, 1, narrow(of_row(t), 1, 0, 30), t); }},
      {"index_select", [&](const Tensor& t) { return index_select(t, 1, turned); }},
      {"linear", [&](const Tensor& t) { return linear(t, weight); }},
      {"cross_entropy",
       [](const Tensor& t) { return cross_entropy(t, argmax(t.detach(), 1), {.reduction = Reduction::none}); }}};
  for (const auto& [name, f] : ops) expect_rows(name, f, x);
}

TEST_F(CudaLargeTensors, OfSorts) {
  expect_rows(
      "sort", [](const Tensor& t) { return sort(t, 1).values; }, draw({rows, columns}));
}

TEST_F(CudaLargeTensors, OfRowsByIndex) {
  Tensor x = draw({rows, columns}).set_requires_grad();
  const std::vector<std::int64_t> places{rows - 1, 5, far, 5};
  const Tensor index = from_vector(places, {4}, gpu), few = draw({4, columns});
  const auto row = [](const Tensor& t, std::int64_t i) { return select(t.detach(), 0, i).to_vector<float>(); };
  const Tensor y = embedding(index, x);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(row(y, i), row(x, places[static_cast<std::size_t>(i)])) << i;
  y.backward(few);
  EXPECT_EQ(row(x.grad(), rows - 1), row(few, 0));
  EXPECT_EQ(row(x.grad(), far), row(few, 2));
  EXPECT_EQ(row(x.grad(), 5), row(narrow(few, 0, 1, 1) + narrow(few, 0, 3, 1), 0));
  EXPECT_EQ(norm(select(x.grad(), 0, far + 1)).item<float>(), 0);
  x.set_grad({});
  const Tensor last = narrow(x.detach(), 0, rows - 1, 1);
  EXPECT_EQ(row(index_add(x.detach(), 0, index, few), rows - 1), row(last + narrow(few, 0, 0, 1), 0));
  const Tensor copied = index_copy(x.detach(), 0, index, few);
  EXPECT_EQ(row(copied, far), row(few, 2));
  EXPECT_EQ(row(copied, 5), row(few, 3)) << "the last of equal indices wins";
  EXPECT_EQ(row(copied, rows - 2), row(x, rows - 2));
}

TEST_F(CudaLargeTensors, OfBytes) {
  constexpr std::int64_t size = far * columns + 9;
  const Tensor x = zeros({size}, DType::u8, gpu);
  fill_(narrow(x, 0, size - 2, 1), 7);
  EXPECT_EQ(argmax(x).item<std::int64_t>(), size - 2);
  EXPECT_EQ(max_with_indices(x, 0).indices.item<std::int64_t>(), size - 2);
  EXPECT_TRUE(any(x).item<bool>());
  EXPECT_EQ(sum(to(x, DType::i64)).item<std::int64_t>(), 7);
  EXPECT_EQ(select(flip(x, {0}), 0, 1).item<std::int64_t>(), 7);
  EXPECT_EQ(select(roll(x, {3}, {0}), 0, 1).item<std::int64_t>(), 7);
  EXPECT_EQ(
      select(repeat(narrow(x, 0, size / 2, size - size / 2), {3}), 0, 3 * (size - size / 2) - 2).item<std::int64_t>(),
      7);
}

// cuDNN gets a batch of less than 2^31 elements at once.
TEST_F(CudaLargeTensors, OfAttention) {
  constexpr std::int64_t batch = 2049, heads = 16, tokens = 1024, size = 64;
  const Tensor x = draw({batch, heads, tokens, size});
  const auto last = [](const Tensor& t) { return to(clone(narrow(t, 0, t.size(0) - 1, 1)), DType::f32); };
  const LargeFunction f = [](const Tensor& t) { return scaled_dot_product_attention(t, t, t, {.causal = true}); };
  const LargeResult all = evaluate_large(f, x), alone = evaluate_large(f, clone(narrow(x, 0, batch - 1, 1)));
  EXPECT_TRUE(all_close(last(all.y), to(alone.y, DType::f32), 0.02, 0.02));
  EXPECT_TRUE(all_close(last(all.grad), to(alone.grad, DType::f32), 0.02, 0.05));
}

TEST_F(CudaLargeTensors, OfALossOverAVocabulary) {
  const Tensor x = draw({rows, columns}), weight = draw({50, columns}) * 0.05;
  const Tensor target = argmax(narrow(x, 1, 0, 50), 1);
  const auto evaluate = [&](const Tensor& rows_of_x, const Tensor& t) {
    const Tensor leaf = rows_of_x.detach().set_requires_grad();
    linear_cross_entropy(leaf, weight, t, {.reduction = Reduction::sum}).backward();
    return leaf.grad();
  };
  const Tensor all = evaluate(x, target);
  const auto tail = [](const Tensor& t) { return clone(narrow(t, 0, rows - window, window)); };
  EXPECT_TRUE(all_close(to(tail(all), DType::f32), to(evaluate(tail(x), tail(target)), DType::f32), 0.02, 0.02));
}

}  // namespace
}  // namespace bytetape::test
