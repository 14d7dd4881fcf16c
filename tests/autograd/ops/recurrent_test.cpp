// Cells of recurrent layers against their formulas in other ops. The op list tests each op alone.
#include "bytetape/autograd/ops/recurrent.h"

#include <functional>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using test::all_close;
using Cell = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

std::vector<Tensor> lstm(const std::vector<Tensor>& x) {
  const auto [h, c] = lstm_cell(x[0], x[1], x[2]);
  return {h, c};
}
std::vector<Tensor> composed_lstm(const std::vector<Tensor>& x) {
  const std::vector<Tensor> ifgo = chunk(x[0] + x[1], 4, -1);
  const Tensor c = sigmoid(ifgo[1]) * x[2] + sigmoid(ifgo[0]) * tanh(ifgo[2]);
  return {sigmoid(ifgo[3]) * tanh(c), c};
}
std::vector<Tensor> gru(const std::vector<Tensor>& x) { return {gru_cell(x[0], x[1], x[2])}; }
std::vector<Tensor> composed_gru(const std::vector<Tensor>& x) {
  const std::vector<Tensor> a = chunk(x[0], 3, -1), b = chunk(x[1], 3, -1);
  const Tensor z = sigmoid(a[1] + b[1]), n = tanh(a[2] + sigmoid(a[0] + b[0]) * b[2]);
  return {n + z * (x[2] - n)};
}

/// Results of a cell, and gradients of a sum that uses each result three times.
std::vector<Tensor> evaluate(const Cell& cell, const std::vector<Tensor>& x) {
  std::vector<Tensor> all = cell(x);
  Tensor loss = zeros({}, DType::f64);
  for (const Tensor& y : std::vector<Tensor>(all)) loss = loss + sum(y * y) + sum(exp(y)) + sum(sin(3 * y));
  for (const bool create_graph : {false, true})
    for (const Tensor& g : grad({loss}, x, {.retain_graph = true, .create_graph = create_graph})) all.push_back(g);
  for (const Tensor& leaf : x) Tensor(leaf).set_grad({});
  loss.backward();
  for (const Tensor& leaf : x) all.push_back(leaf.grad());
  return all;
}

void expect_equal(const Cell& cell, const Cell& composed, std::int64_t gates) {
  for (const std::int64_t n : {0, 1, 7})
    for (const std::int64_t hidden : {1, 5, 8, 512}) {
      const auto leaf = [&](std::int64_t width) { return randn({1, n, width}, DType::f64).set_requires_grad(); };
      const std::vector<Tensor> x{leaf(gates * hidden), leaf(gates * hidden), leaf(hidden)};
      const auto found = evaluate(cell, x), expected = evaluate(composed, x);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(all_close(found[i], expected[i], 1e-12, 1e-12)) << i << ", hidden " << hidden << ", batch " << n;
    }
}

TEST(RecurrentCell, OfAnLstmIsItsFormula) { expect_equal(lstm, composed_lstm, 4); }
TEST(RecurrentCell, OfAGruIsItsFormula) { expect_equal(gru, composed_gru, 3); }

TEST(RecurrentCell, LeavesTheGradientsOfItsResultsAsTheyWere) {
  const Tensor gates = randn({2, 12}, DType::f64).set_requires_grad(),
               c = randn({2, 3}, DType::f64).set_requires_grad();
  const std::vector<Tensor> seeds{randn({2, 3}, DType::f64), randn({2, 3}, DType::f64)};
  const Tensor before[] = {clone(seeds[0]), clone(seeds[1])};
  grad(lstm({gates, zeros_like(gates), c}), {gates, c}, {.seeds = seeds});
  for (std::size_t i = 0; i < seeds.size(); ++i) EXPECT_TRUE(all_close(seeds[i], before[i], 0, 0));
}

TEST(RecurrentCell, TakesTheWidestDTypeUnderAutocast) {
  const Autocast autocast(DType::bf16);
  const Tensor gates = randn({2, 12}, DType::bf16), wide = randn({2, 12}), h = randn({2, 3}, DType::bf16);
  EXPECT_EQ(lstm_cell(gates, gates, h).c.dtype(), DType::bf16);
  EXPECT_EQ(lstm_cell(gates, wide, h).c.dtype(), DType::f32);
  EXPECT_EQ(lstm_cell(gates, gates, to(h, DType::f32)).h.dtype(), DType::f32);
  EXPECT_EQ(gru_cell(gates, gates, randn({2, 4})).dtype(), DType::f32);
}

TEST(RecurrentCell, GivesBothSummandsOneGradient) {
  Tensor x = randn({2, 12}).set_requires_grad(), h = randn({2, 12}).set_requires_grad();
  const std::vector<Tensor> g = grad({sum(lstm_cell(x, h, zeros({2, 3})).h)}, {x, h});
  EXPECT_EQ(g[0].to_vector<float>(), g[1].to_vector<float>());
  EXPECT_NE(&g[0].storage(), &g[1].storage()) << "a caller may write into either";
}

}  // namespace
}  // namespace bytetape
