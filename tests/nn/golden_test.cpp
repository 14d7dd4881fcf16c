// Layers, the gradients of inputs and parameters, and second gradients against PyTorch's in f64.
#include <gtest/gtest.h>

#include "bytetape/bytetape.h"
#include "tests/support/golden_case.h"

namespace bytetape::test {
namespace {

using A = const GoldenArguments&;
using X = Tensors&;

/// Gives the layer the parameters among the inputs, and puts the layer's in their place. Returns the other inputs.
Tensors load(nn::Module& layer, A a, X x) {
  layer.to(DType::f64);
  const auto names = a.words("parameters");
  EXPECT_EQ(layer.parameters().size(), names.size());
  const std::size_t first = x.size() - names.size();
  const NoGrad no_grad;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Tensor p = layer.get_parameter(names[i]);
    copy_(p, x[first + i]);
    x[first + i] = p;
  }
  return {x.begin(), x.begin() + static_cast<std::ptrdiff_t>(first)};
}

template <class M>
Tensor output(M layer, A a, X x) {
  return layer(load(layer, a, x)[0]);
}

Tensor embedded(A a, X x) {
  if (!a.has("padding_idx")) return output(nn::Embedding(5, 2), a, x);
  return output(nn::Embedding(5, 2, {.padding_idx = a.integer("padding_idx")}), a, x);
}
Tensor normalised(A a, X x) {
  return output(nn::RMSNorm({4}, a.has("eps") ? nn::RMSNormOptions{.eps = a.number("eps")} : nn::RMSNormOptions{}), a,
                x);
}

nn::RNNOptions recurrent_options(A a) {
  return {.num_layers = a.integer("num_layers", 1),
          .bias = a.integer("bias", 1) != 0,
          .batch_first = a.flag("batch_first"),
          .bidirectional = a.flag("bidirectional")};
}
Tensors lstm(A a, X x) {
  nn::LSTM layer(3, 2, recurrent_options(a));
  Tensors in = load(layer, a, x);
  const auto [y, state] = layer(in[0], nn::LSTMState{optional_input(in, 1), optional_input(in, 2)});
  return {y, state.h, state.c};
}
Tensors gru(A a, X x) {
  nn::GRU layer(3, 2, recurrent_options(a));
  Tensors in = load(layer, a, x);
  const auto [y, h] = layer(in[0], optional_input(in, 1));
  return {y, h};
}

nn::AttentionMasks masks_of(A a, X x) {
  nn::AttentionMasks masks{.is_causal = a.flag("causal")};
  if (a.text("masks") == "attn_mask") masks.attn_mask = x.at(3);
  if (a.text("masks") == "key_padding_mask") masks.key_padding_mask = x.at(3);
  return masks;
}
Tensor attended(A a, X x) {
  nn::MultiheadAttention layer(4, 2);
  Tensors in = load(layer, a, x);
  return layer(in[0], in[1], in[2], masks_of(a, in));
}

nn::TransformerOptions transformer_options(A a) {
  return {.dim_feedforward = 3,
          .dropout = 0,
          .activation = a.text("activation") == "gelu" ? nn::FeedForward::gelu : nn::FeedForward::relu,
          .norm_first = a.flag("norm_first")};
}
Tensor encoded(A a, X x) {
  nn::TransformerEncoderLayer layer(4, 2, transformer_options(a));
  Tensors in = load(layer, a, x);
  return layer(in[0], {.key_padding_mask = optional_input(in, 1), .is_causal = a.flag("causal")});
}
Tensor decoded(A a, X x) {
  nn::TransformerDecoderLayer layer(4, 2, transformer_options(a));
  Tensors in = load(layer, a, x);
  return layer(in[0], in[1], {.is_causal = a.flag("causal")}, {.key_padding_mask = optional_input(in, 2)});
}

const GoldenOps& layers() {
  static const GoldenOps all{
      {"Embedding", embedded},
      {"RMSNorm", normalised},
      {"InstanceNorm2d", [](A a, X x) { return output(nn::InstanceNorm2d(2, {.affine = a.flag("affine")}), a, x); }},
      {"PixelShuffle", [](A a, X x) { return output(nn::PixelShuffle(2), a, x); }},
      {"LSTM", lstm},
      {"GRU", gru},
      {"MultiheadAttention", attended},
      {"TransformerEncoderLayer", encoded},
      {"TransformerDecoderLayer", decoded},
  };
  return all;
}

const std::vector<GoldenCase>& cases() {
  static const auto all = golden_cases("layers.csv");
  return all;
}

class GoldenLayerCase : public testing::TestWithParam<std::size_t> {};

TEST_P(GoldenLayerCase, EqualsPyTorch) {
  const GoldenCase& c = cases()[GetParam()];
  expect_golden(c, layers().at(c.op));
}

INSTANTIATE_TEST_SUITE_P(, GoldenLayerCase, testing::Range(std::size_t{0}, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

TEST(GoldenLayers, HaveCases) { expect_complete(cases(), layers()); }

}  // namespace
}  // namespace bytetape::test
