// Cells and layers of recurrent networks on a GPU: units one by one and in vectors, and captured steps.
#include "bytetape/autograd/ops/recurrent.h"

#include <vector>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaRecurrentCell : public GpuTest, public testing::WithParamInterface<std::int64_t> {};

/// Results of a cell on a device, and all gradients.
std::vector<std::vector<double>> results(const std::vector<Tensor>& inputs, bool is_lstm, Device device) {
  std::vector<Tensor> x, y;
  for (const Tensor& v : inputs) x.push_back(to(v, device).detach().set_requires_grad());
  if (is_lstm) {
    const LstmCell made = lstm_cell(x[0], x[1], x[2]);
    y = {made.h, made.c};
  } else {
    y = {gru_cell(x[0], x[1], x[2])};
  }
  std::vector<std::vector<double>> all;
  for (const Tensor& v : y) all.push_back(v.detach().to_vector<double>());
  Tensor loss = sum(to(y[0] * y[0] + y[0], DType::f64));
  if (is_lstm) loss = loss + sum(to(y[1] * y[1], DType::f64));
  for (const Tensor& g : grad({loss}, x)) all.push_back(g.to_vector<double>());
  return all;
}

TEST_P(CudaRecurrentCell, EqualsTheCpus) {
  const std::int64_t hidden = GetParam();
  for (const bool is_lstm : {true, false})
    for (const std::int64_t rows : {0, 1, 64, 4400})
      for (const auto& [dtype, tolerance] :
           {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-5}, {DType::bf16, 3e-2}, {DType::f16, 4e-3}}) {
        SCOPED_TRACE(detail::concat(is_lstm ? "lstm " : "gru ", dtype, " ", rows));
        const std::int64_t width = (is_lstm ? 4 : 3) * hidden;
        const std::vector<Tensor> x{random_tensor({rows, width}, dtype), random_tensor({rows, width}, dtype),
                                    random_tensor({rows, hidden}, dtype)};
        const auto here = results(x, is_lstm, {}), there = results(x, is_lstm, gpu);
        for (std::size_t i = 0; i < here.size(); ++i)
          EXPECT_TRUE(all_close(there[i], here[i], tolerance, tolerance)) << i;
        EXPECT_EQ(results(x, is_lstm, gpu), there) << "another time";
      }
}

INSTANTIATE_TEST_SUITE_P(Hidden, CudaRecurrentCell, testing::Values(1, 5, 8, 512));

class CudaRecurrentLayer : public GpuTest {
 protected:
  /// Expects three captured steps to leave the same bits as plain ones.
  template <class Layer>
  static void expect_captured_is_plain(const nn::RNNOptions& options) {
    const DefaultDevice here(gpu);
    const auto run = [&](bool is_captured) {
      manual_seed(4);
      Layer layer(24, 40, options);
      optim::SGD sgd(layer.parameters(), {.lr = 0.1});
      const auto step = [&](const Tensor& x) {
        sgd.zero_grad();
        const Tensor y = layer(x);
        sum(y * y).backward();
        sgd.step();
        return y.detach();
      };
      auto captured_step = capture(step);
      std::vector<std::vector<float>> left;
      for (int i = 0; i < 3; ++i) {
        const Tensor x = randn({7, 7, 24});
        left.push_back((is_captured ? captured_step(x) : step(x)).template to_vector<float>());
      }
      EXPECT_EQ(captured_step.is_captured(), is_captured);
      for (const Tensor& p : layer.parameters()) left.push_back(p.detach().template to_vector<float>());
      return left;
    };
    EXPECT_EQ(run(true), run(false));
  }
};

TEST_F(CudaRecurrentLayer, IsTheSameIfCaptured) {
  for (const nn::RNNOptions& options :
       {nn::RNNOptions{}, nn::RNNOptions{.num_layers = 2, .batch_first = true, .bidirectional = true}}) {
    expect_captured_is_plain<nn::LSTM>(options);
    expect_captured_is_plain<nn::GRU>(options);
  }
}

}  // namespace
}  // namespace bytetape::test
