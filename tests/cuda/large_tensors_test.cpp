// Tensors of more than 2^31 elements, and more than 2^32 bytes. The rows before and behind that place, and the last
// ones, must be what the op computes of those rows alone.
#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

constexpr std::int64_t columns = 1024, far = (std::int64_t{1} << 31) / columns;  // row `far` begins at element 2^31
constexpr std::int64_t rows = far + 2125, window = 100;

class CudaLargeTensors : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (cuda::mem_get_info(gpu.index).free < std::size_t{45} << 30) GTEST_SKIP() << "needs 45 GB of the GPU's memory";
    manual_seed(3);
  }
  void TearDown() override {
    if (!IsSkipped()) memory::empty_cache(gpu);  // for other processes
  }
  static Tensor draw(const Shape& shape, DType dtype = DType::bf16) { return randn(shape, dtype, gpu); }
};

/// The value and the gradient of an op.
struct Result {
  Tensor y, grad;
};
/// A gradient that is no function of y, so that norms pass something on: -1, 0, 1, -1, ... along the last dim.
Tensor seed_for(const Tensor& y) {
  if (y.rank() < 2) return ones_like(y);
  std::vector<float> pattern;
  for (std::int64_t i = 0; i < y.shape().back(); ++i) pattern.push_back(static_cast<float>(i % 3 - 1));
  return contiguous(expand(to(to(from_vector(pattern), y.device()), y.dtype()), y.shape()));
}
using Function = std::function<Tensor(const Tensor&)>;
Result evaluate(const Function& f, const Tensor& leaf) {
  const Tensor x = leaf.detach().set_requires_grad();
  const Tensor y = f(x);
  if (!y.requires_grad()) return {y, {}};
  y.backward(seed_for(y));
  return {y.detach(), x.grad()};
}

/// Whether an op computes each of the rows as of a part of them.
void expect_rows(const std::string& name, const Function& f, const Tensor& x) {
  SCOPED_TRACE(name);
  const Result all = evaluate(f, x);
  for (const std::int64_t first : {std::int64_t{0}, far - window / 2, rows - window}) {
    const auto part = [&](const Tensor& t) { return to(clone(narrow(t, 0, first, window)), DType::f32); };
    const Result alone = evaluate(f, clone(narrow(x, 0, first, window)));
    EXPECT_TRUE(all_close(part(all.y), to(alone.y, DType::f32), 0.02, 2e-3)) << "from row " << first;
    if (!all.grad.defined()) continue;
    EXPECT_TRUE(all_close(part(all.grad), to(alone.grad, DType::f32), 0.02, 2e-3)) << "gradient from row " << first;
  }
}

TEST_F(CudaLargeTensors, OfOpsOnRows) {
  const Tensor x = draw({rows, columns}), weight = draw({8, columns}) * 0.03,
               ones_of_row = ones(columns, DType::bf16, gpu);
  const Tensor turned = flip(arange(columns, DType::i64, gpu), {0});
  const auto of_row = [&](const Tensor& t) { return expand(unsqueeze(turned, 0), t.shape()); };
  const std::vector<std::pair<std::string, Function>> ops{
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
  const Function f = [](const Tensor& t) { return scaled_dot_product_attention(t, t, t, {.causal = true}); };
  const Result all = evaluate(f, x), alone = evaluate(f, clone(narrow(x, 0, batch - 1, 1)));
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
