#include "bytetape/nn/rnn.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using nn::GRU;
using nn::LSTM;
using nn::LSTMState;
using nn::RNNOptions;

/// Element i is f(i), as in tests/golden/rnn.py.
Tensor values(const Shape& shape, const std::function<double(double)>& f) {
  std::vector<double> all(static_cast<std::size_t>(numel(shape)));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = f(static_cast<double>(i));
  return from_vector(all, shape);
}
Tensor weighted(const Tensor& x) {
  return sum(x * values(x.shape(), [](double i) { return std::cos(1.1 * i); }));
}
Tensor state(std::int64_t cells, std::int64_t n, double s) {
  return values({cells, n, 4}, [s](double i) { return std::cos(0.4 * i + s); }).set_requires_grad();
}
void fill(nn::Module& layer) {
  layer.to(DType::f64);
  const NoGrad no_grad;
  for (auto& [name, p] : layer.named_parameters())
    copy_(p, values(p.shape(), [phase = 0.7 * static_cast<double>(name.size())](double i) {
            return 0.6 * std::sin(1.3 * i + phase);
          }));
}

/// Compares results and gradients with PyTorch's.
template <class M>
void expect_golden(const std::string& name, const RNNOptions& options, bool has_state) {
  SCOPED_TRACE(name);
  const auto expect = [&](const std::vector<double>& found, const std::string& what) {
    EXPECT_TRUE(test::all_close(found, test::golden_numbers("rnn.csv", name, what), 1e-10, 1e-12)) << what;
  };
  M layer(3, 4, options);
  fill(layer);
  const std::int64_t cells = options.num_layers * (options.bidirectional ? 2 : 1), n = options.batch_first ? 5 : 2;
  const Tensor x = values({5, 2, 3}, [](double i) { return std::sin(0.7 * i + 0.1); }).set_requires_grad();
  const Tensor h0 = state(cells, n, 0), c0 = state(cells, n, 1);
  Tensor y, h, c;
  if constexpr (std::is_same_v<M, LSTM>) {
    auto [output, last] = layer(x, has_state ? LSTMState{h0, c0} : LSTMState{});
    y = output, h = last.h, c = last.c;
    expect(c.to_vector<double>(), "c");
  } else {
    std::tie(y, h) = layer(x, has_state ? h0 : Tensor());
  }
  expect(y.to_vector<double>(), "y");
  expect(h.to_vector<double>(), "h");
  (weighted(y) + weighted(h) + (c.defined() ? weighted(c) : zeros({}, DType::f64))).backward();
  expect(x.grad().to_vector<double>(), "gx");
  if (has_state) expect(h0.grad().to_vector<double>(), "gh");
  const auto parameters = layer.parameters();
  std::vector<double> gw = parameters.front().grad().template to_vector<double>();
  const auto rest = parameters.back().grad().template to_vector<double>();
  gw.insert(gw.end(), rest.begin(), rest.end());
  expect(gw, "gw");
}

const RNNOptions deep{.num_layers = 2, .batch_first = true, .bidirectional = true};

TEST(LSTM, EqualsPyTorch) {
  expect_golden<LSTM>("lstm", {}, false);
  expect_golden<LSTM>("lstm_state", {}, true);
  expect_golden<LSTM>("lstm_deep", deep, true);
  expect_golden<LSTM>("lstm_without_bias", {.bias = false, .bidirectional = true}, false);
}

TEST(GRU, EqualsPyTorch) {
  expect_golden<GRU>("gru", {}, false);
  expect_golden<GRU>("gru_state", {}, true);
  expect_golden<GRU>("gru_deep", deep, true);
  expect_golden<GRU>("gru_without_bias", {.bias = false, .bidirectional = true}, false);
}

TEST(LSTM, GoesOnAsInTheDocs) {
  const Tensor x = randn({2, 3, 64}), next = randn({2, 1, 64});
  nn::LSTM lstm(64, 128, {.num_layers = 2, .batch_first = true});
  const auto [y, state] = lstm(x, nn::LSTMState{});
  const auto [more, last] = lstm(next, state);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 128}));
  EXPECT_EQ(last.c.shape(), (Shape{2, 2, 128}));
  EXPECT_TRUE(test::all_close(cat({y, more}, 1), lstm(cat({x, next}, 1)), 1e-5, 1e-6));
}

template <class M>
class Recurrent : public testing::Test {
 protected:
  static std::pair<Tensor, Tensor> run(M& layer, const Tensor& x, const Tensor& h) {
    if constexpr (std::is_same_v<M, LSTM>) {
      auto [y, last] = layer(x, LSTMState{h, {}});
      return {y, last.h};
    } else {
      return layer(x, h);
    }
  }
};
using Layers = testing::Types<LSTM, GRU>;
TYPED_TEST_SUITE(Recurrent, Layers);

TYPED_TEST(Recurrent, HasPyTorchsNames) {
  const TypeParam layer(3, 4, deep);
  std::vector<std::string> names;
  for (const auto& [name, p] : layer.named_parameters()) names.push_back(name);
  EXPECT_THAT(names,
              testing::ElementsAre("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                                   "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_ih_l1",
                                   "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_ih_l1_reverse",
                                   "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse"));
  const std::int64_t gates = std::is_same_v<TypeParam, LSTM> ? 4 : 3;
  EXPECT_EQ(layer.get_parameter("weight_ih_l0").shape(), (Shape{gates * 4, 3}));
  EXPECT_EQ(layer.get_parameter("weight_ih_l1").shape(), (Shape{gates * 4, 8}));
  EXPECT_EQ(layer.get_parameter("bias_hh_l1").shape(), (Shape{gates * 4}));
  for (const Tensor& p : layer.parameters()) {
    EXPECT_LE(max(abs(p.detach())).template item<float>(), 0.5f) << "1 / sqrt(hidden)";
    EXPECT_GT(max(abs(p.detach())).template item<float>(), 0.25f);
  }
}

TYPED_TEST(Recurrent, HasTheRightGradients) {
  manual_seed(2);
  TypeParam layer(2, 3, {.num_layers = 2, .bidirectional = true});
  layer.to(DType::f64);
  const Tensor x = randn({3, 2, 2}, DType::f64).set_requires_grad(),
               h = randn({4, 2, 3}, DType::f64).set_requires_grad();
  const auto f = [&](const std::vector<Tensor>& in) {
    const auto [y, last] = TestFixture::run(layer, in[0], in[1]);
    return cat({flatten(y, 0), flatten(last, 0)}, 0);
  };
  const auto of_inputs = gradcheck(f, {x, h});
  EXPECT_TRUE(of_inputs) << of_inputs.message;
  const auto of_parameters = gradcheck(
      [&](const std::vector<Tensor>&) {
        return f({x.detach(), h.detach()});
      },
      layer.parameters());
  EXPECT_TRUE(of_parameters) << of_parameters.message;
}

TYPED_TEST(Recurrent, GoesOnFromItsState) {
  TypeParam layer(3, 4, {.num_layers = 2});
  const Tensor x = randn({6, 2, 3});
  const auto [whole, end] = TestFixture::run(layer, x, {});
  if constexpr (std::is_same_v<TypeParam, GRU>) {
    const auto [first, middle] = layer(narrow(x, 0, 0, 4), Tensor());
    const auto [second, last] = layer(narrow(x, 0, 4, 2), middle);
    EXPECT_TRUE(test::all_close(cat({first, second}, 0), whole, 1e-6, 1e-6));
    EXPECT_TRUE(test::all_close(last, end, 1e-6, 1e-6));
  } else {
    const auto [first, middle] = layer(narrow(x, 0, 0, 4), LSTMState{});
    const auto [second, last] = layer(narrow(x, 0, 4, 2), middle);
    EXPECT_TRUE(test::all_close(cat({first, second}, 0), whole, 1e-6, 1e-6));
    EXPECT_TRUE(test::all_close(last.h, end, 1e-6, 1e-6));
  }
}

// A step saves h, what its cell keeps (4 tensors of h's size), and in an LSTM the cell state. x is saved once.
TYPED_TEST(Recurrent, SavesFewTensorsAStep) {
  TypeParam layer(128, 128);
  const auto saved = [&](std::int64_t steps) {
    const Tensor x = zeros({steps, 1, 128}), y = layer(x);
    return static_cast<std::int64_t>(test::held_as(memory::Role::saved));
  };
  const std::int64_t bytes = 128 * sizeof(float), tensors = std::is_same_v<TypeParam, LSTM> ? 6 : 5;
  EXPECT_EQ(saved(9) - saved(8), (tensors + 1) * bytes);
}

TYPED_TEST(Recurrent, ReturnsItsOutputInASequential) {
  TypeParam layer(3, 4, {.batch_first = true});
  const Tensor x = randn({2, 5, 3}), expected = TestFixture::run(layer, x, {}).first;
  EXPECT_EQ(layer(x).template to_vector<float>(), expected.template to_vector<float>());
  nn::Sequential net(std::move(layer), nn::Linear(4, 2));
  EXPECT_EQ(net(x).shape(), (Shape{2, 5, 2}));
}

TYPED_TEST(Recurrent, DropsBetweenLayersInTraining) {
  const Tensor x = randn({5, 2, 3});
  TypeParam layer(3, 4, {.num_layers = 2, .dropout = 0.5}), one(3, 4, {.dropout = 0.5});
  const auto two = [&](TypeParam& m) { return m(x).template to_vector<float>() == m(x).template to_vector<float>(); };
  EXPECT_FALSE(two(layer));
  EXPECT_TRUE(two(one)) << "the last layer's output is kept";
  layer.eval();
  EXPECT_TRUE(two(layer));
}

TYPED_TEST(Recurrent, CanBeCheckpointedAndCopied) {
  TypeParam layer(3, 4, {.num_layers = 2, .dropout = 0.3});
  const Tensor x = randn({5, 2, 3}).set_requires_grad();
  const auto gradient = [&](TypeParam& m) {
    manual_seed(1);
    return grad({sum(m(x))}, {x})[0].template to_vector<float>();
  };
  const auto expected = gradient(layer);
  TypeParam copy = nn::clone(layer);
  EXPECT_EQ(gradient(copy), expected);
  EXPECT_FALSE(copy.parameters()[0].is_same(layer.parameters()[0]));
  layer.set_checkpointed();
  EXPECT_EQ(gradient(layer), expected);
}

TYPED_TEST(Recurrent, RunsUnderAutocast) {
  TypeParam layer(3, 4);
  const Autocast autocast(DType::bf16);
  const Tensor y = layer(randn({5, 2, 3}));
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_NO_THROW(sum(y).backward());
}

TYPED_TEST(Recurrent, ConvertsAStateUnderAutocastAlone) {
  TypeParam layer(3, 4, {.num_layers = 2, .bidirectional = true});
  const Tensor x = randn({5, 2, 3}), zero = zeros({4, 2, 4});
  const auto results = [&](const Tensor& state) -> std::vector<Tensor> {
    if constexpr (std::is_same_v<TypeParam, LSTM>) {
      const auto [y, last] = layer(x, LSTMState{state, state});
      return {y, last.h, last.c};
    } else {
      const auto [y, h] = layer(x, state);
      return {y, h};
    }
  };
  {
    const Autocast autocast(DType::bf16);
    const std::vector<Tensor> expected = results({});
    for (const DType given : {DType::f32, DType::bf16, DType::f16}) {
      const std::vector<Tensor> found = results(to(zero, given));
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(expected[i].dtype(), DType::bf16) << i;
        EXPECT_EQ(found[i].dtype(), DType::bf16) << given << " " << i;
        EXPECT_EQ(found[i].template to_vector<float>(), expected[i].template to_vector<float>()) << given << " " << i;
      }
    }
    Tensor state = randn({4, 2, 4}).set_requires_grad();
    sum(results(state)[0]).backward();
    EXPECT_EQ(state.grad().dtype(), DType::f32);
  }
  EXPECT_THROW(results(to(zero, DType::bf16)), DTypeError);
}

// Autocast keeps f64.
TYPED_TEST(Recurrent, KeepsAStateInF64UnderAutocast) {
  TypeParam layer(3, 4);
  layer.to(DType::f64);
  const Tensor x = randn({5, 2, 3}, DType::f64), h = randn({1, 2, 4}, DType::f64);
  const auto expected = TestFixture::run(layer, x, h).first.template to_vector<double>();
  const Autocast autocast(DType::bf16);
  EXPECT_EQ(TestFixture::run(layer, x, h).first.template to_vector<double>(), expected);
}

TYPED_TEST(Recurrent, RefusesWhatDoesNotFit) {
  EXPECT_THROWS_SAYING(TypeParam(0, 4), ValueError, "a recurrent layer needs positive sizes, got input_size 0");
  EXPECT_THROWS_SAYING(TypeParam(3, 0), ValueError, "hidden_size 0");
  EXPECT_THROWS_SAYING(TypeParam(3, 4, {.num_layers = 0}), ValueError, "num_layers 0");
  EXPECT_THROWS_SAYING(TypeParam(3, 4, {.dropout = 1.5}), ValueError, "dropout must be from 0 to 1, got 1.5");
  EXPECT_THROWS_SAYING(TypeParam(3, 4, {.dropout = -0.5}), ValueError, "dropout must be from 0 to 1, got -0.5");
  for (const double end : {0.0, 1.0}) EXPECT_NO_THROW(TypeParam(3, 4, {.dropout = end}));
  TypeParam layer(3, 4), first(3, 4, {.batch_first = true});
  EXPECT_THROWS_SAYING(layer(randn({5, 2, 4})), ShapeError, "(3, 4) expects an input of shape (t, n, 3) with t >= 1");
  EXPECT_THROWS_SAYING(layer(randn({5, 3})), ShapeError, "got f32(5, 3)");
  EXPECT_THROWS_SAYING(layer(zeros({0, 2, 3})), ShapeError, "with t >= 1");
  EXPECT_THROWS_SAYING(first(zeros({2, 0, 3})), ShapeError, "expects an input of shape (n, t, 3) with t >= 1");
  EXPECT_THROWS_SAYING(TestFixture::run(layer, randn({5, 2, 3}), randn({1, 3, 4})), ShapeError,
                       "expects an initial state of shape (1, 2, 4), got f32(1, 3, 4)");
}

TYPED_TEST(Recurrent, DescribesItself) {
  const std::string name = std::is_same_v<TypeParam, LSTM> ? "LSTM" : "GRU";
  EXPECT_EQ(TypeParam(3, 4).describe(), name + "(3, 4)");
  EXPECT_EQ(
      TypeParam(3, 4, {.num_layers = 2, .bias = false, .batch_first = true, .dropout = 0.5, .bidirectional = true})
          .describe(),
      name + "(3, 4, num_layers=2, bias=false, batch_first=true, dropout=0.5, bidirectional=true)");
}

}  // namespace
}  // namespace bytetape
