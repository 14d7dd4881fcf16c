#include "bytetape/nn/transformer.h"

#include <cmath>
#include <functional>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using nn::AttentionMasks;

/// Element i is f(i), as in tests/golden/transformer.py.
Tensor values(const Shape& shape, const std::function<double(double)>& f) {
  std::vector<double> all(static_cast<std::size_t>(numel(shape)));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = f(static_cast<double>(i));
  return from_vector(all, shape);
}
Tensor input() {
  return values({2, 4, 6}, [](double i) { return std::sin(0.7 * i + 0.1); }).set_requires_grad();
}
Tensor other() {
  return values({2, 3, 6}, [](double i) { return std::cos(0.4 * i); });
}
Tensor padding() { return from_vector(std::vector<bool>{0, 0, 0, 0, 0, 0, 0, 1}, {2, 4}); }
Tensor causal() { return from_vector(std::vector<bool>{0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0}, {4, 4}); }
Tensor floats() {
  return values({4, 4}, [](double i) { return 0.3 * i - 1; });
}

template <class M>
M& filled(M& layer) {
  layer.to(DType::f64);
  const NoGrad no_grad;
  for (auto& [name, p] : layer.named_parameters()) {
    const double offset = name.find("norm") != std::string::npos && name.ends_with("weight") ? 1 : 0;
    const double phase = 0.7 * static_cast<double>(name.size());
    copy_(p, values(p.shape(), [&](double i) { return offset + 0.6 * std::sin(1.3 * i + phase); }));
  }
  return layer;
}

/// Compares results and gradients with PyTorch's.
template <class M>
void expect_golden(const std::string& name, M layer, const std::function<Tensor(M&, const Tensor&)>& call) {
  const auto expect = [&](const Tensor& x, const std::string& what) {
    EXPECT_TRUE(
        test::all_close(x.to_vector<double>(), test::golden_numbers("transformer.csv", name, what), 1e-10, 1e-12))
        << name << ' ' << what;
  };
  const Tensor x = input(), y = call(filled(layer), x);
  sum(y * values(y.shape(), [](double i) { return std::cos(1.1 * i); })).backward();
  expect(y, "y");
  expect(x.grad(), "gx");
  expect(layer.parameters()[0].grad(), "gw");
}

void expect_attention(const std::string& name, const AttentionMasks& masks, bool bias = true) {
  expect_golden<nn::MultiheadAttention>(name, nn::MultiheadAttention(6, 2, {.bias = bias}),
                                        [&](auto& layer, const Tensor& x) { return layer(x, x, x, masks); });
}

TEST(MultiheadAttention, TakesTheInputsThatAHookReplaced) {
  const Tensor x = randn({2, 5, 8}), other = randn({2, 5, 8});
  for (const bool checkpoints : {false, true}) {
    nn::MultiheadAttention attention(8, 2);
    const Tensor expected = attention(x, other, other);
    attention.set_checkpointed(checkpoints);
    attention.register_forward_pre_hook(
        [&](const nn::Module&, std::vector<Tensor>& inputs) { inputs[1] = inputs[2] = other; });
    EXPECT_EQ(attention(x, x, x).to_vector<float>(), expected.to_vector<float>());
  }
}

TEST(MultiheadAttention, IsPyTorchs) {
  expect_attention("attention", {});
  expect_attention("attention_without_bias", {}, false);
  expect_attention("attention_causal", {.attn_mask = causal()});
  expect_attention("attention_causal", {.is_causal = true});
  expect_attention("attention_padded", {.key_padding_mask = padding()});
  expect_attention("attention_causal_padded", {.attn_mask = causal(), .key_padding_mask = padding()});
  expect_attention("attention_causal_padded", {.key_padding_mask = padding(), .is_causal = true});
  expect_attention("attention_float", {.attn_mask = floats()});
  expect_golden<nn::MultiheadAttention>("attention_to_other", nn::MultiheadAttention(6, 2),
                                        [](auto& layer, const Tensor& x) { return layer(x, other(), other()); });
}

TEST(TransformerEncoderLayer, IsPyTorchs) {
  const auto expect = [](const std::string& name, nn::FeedForward activation, bool norm_first, AttentionMasks masks) {
    nn::TransformerEncoderLayer layer(
        6, 2, {.dim_feedforward = 8, .dropout = 0, .activation = activation, .norm_first = norm_first});
    expect_golden<nn::TransformerEncoderLayer>(name, std::move(layer),
                                               [&](auto& l, const Tensor& x) { return l(x, masks); });
  };
  expect("encoder", nn::FeedForward::relu, false, {});
  expect("encoder_padded", nn::FeedForward::gelu, false, {.key_padding_mask = padding()});
  expect("encoder_norm_first", nn::FeedForward::gelu, true, {.is_causal = true});
}

TEST(TransformerDecoderLayer, IsPyTorchs) {
  for (const bool norm_first : {false, true}) {
    nn::TransformerDecoderLayer layer(6, 2, {.dim_feedforward = 8, .dropout = 0, .norm_first = norm_first});
    expect_golden<nn::TransformerDecoderLayer>(
        norm_first ? "decoder_norm_first" : "decoder", std::move(layer),
        [](auto& l, const Tensor& x) { return l(x, other(), {.is_causal = true}); });
  }
}

TEST(MultiheadAttention, HasPyTorchsKeysAndStart) {
  manual_seed(5);
  const nn::MultiheadAttention layer(32, 4);
  std::vector<std::string> keys;
  for (const auto& [name, x] : layer.state_dict()) keys.push_back(name);
  EXPECT_EQ(keys, (std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_LE(max(abs(layer.in_proj_weight)).item<double>(), std::sqrt(6.0 / (4 * 32)));
  EXPECT_GT(max(abs(layer.in_proj_weight)).item<double>(), 0.99 * std::sqrt(6.0 / (4 * 32)));
  EXPECT_EQ(max(abs(layer.in_proj_bias)).item<double>(), 0);
  EXPECT_EQ(max(abs(layer.out_proj.bias)).item<double>(), 0);
  EXPECT_EQ(layer.describe(), "MultiheadAttention(32, 4)");
}

TEST(TransformerEncoderLayer, HasPyTorchsKeys) {
  const nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 4});
  std::vector<std::string> keys;
  for (const auto& [name, x] : layer.state_dict()) keys.push_back(name);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
                                      "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight",
                                      "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}));
}

TEST(TransformerDecoderLayer, HasPyTorchsKeys) {
  const nn::TransformerDecoderLayer layer(8, 2, {.dim_feedforward = 4, .bias = false});
  std::vector<std::string> keys;
  for (const auto& [name, x] : layer.state_dict()) keys.push_back(name);
  EXPECT_EQ(keys, (std::vector<std::string>{"self_attn.in_proj_weight", "self_attn.out_proj.weight",
                                            "multihead_attn.in_proj_weight", "multihead_attn.out_proj.weight",
                                            "linear1.weight", "linear2.weight", "norm1.weight", "norm2.weight",
                                            "norm3.weight"}));
}

TEST(MultiheadAttention, GivesTheBiasForAQueryWithoutKeys) {
  nn::MultiheadAttention layer(4, 2);
  nn::init::uniform_(layer.out_proj.bias, 1, 2);
  const Tensor x = randn({1, 2, 4});
  const Tensor y = layer(x, x, x, {.key_padding_mask = from_vector(std::vector<bool>{true, true}, {1, 2})});
  EXPECT_EQ(y.to_vector<float>(), expand(layer.out_proj.bias, {1, 2, 4}).to_vector<float>());
}

TEST(MultiheadAttention, TakesAValueOfItsOwn) {
  nn::MultiheadAttention layer(8, 2);
  const Tensor x = randn({2, 5, 8}), v = randn({2, 5, 8});
  const Tensor copied = layer(x, clone(x), v);
  EXPECT_TRUE(test::all_close(layer(x, x, v), copied, 1e-6, 1e-6));
  EXPECT_FALSE(test::all_close(layer(x, x, x), copied, 1e-2, 1e-2));
}

TEST(MultiheadAttention, JoinsPaddingAndAFloatMask) {
  nn::MultiheadAttention layer(8, 2);
  const Tensor x = randn({2, 3, 8}), added = randn({3, 3}),
               padding = from_vector(std::vector<bool>{false, false, true, false, false, true}, {2, 3});
  const Tensor shorter = narrow(x, 1, 0, 2);  // what is left if no query attends to the last key
  const Tensor expected = layer(shorter, shorter, shorter, {.attn_mask = narrow(narrow(added, 0, 0, 2), 1, 0, 2)});
  const Tensor found = layer(x, x, x, {.attn_mask = added, .key_padding_mask = padding});
  EXPECT_TRUE(test::all_close(narrow(found, 1, 0, 2), expected, 1e-6, 1e-6));
}

TEST(MultiheadAttention, DropsWeightsInTrainingOnly) {
  nn::MultiheadAttention layer(8, 2, {.dropout = 0.5});
  const Tensor x = randn({2, 5, 8});
  const auto once = [&] { return layer(x).to_vector<float>(); };
  EXPECT_NE(once(), once());
  layer.eval();
  EXPECT_EQ(once(), once());
}

TEST(TransformerEncoderLayer, DropsFeaturesInTrainingOnly) {
  nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0.2});
  const Tensor x = randn({2, 5, 8});
  const auto once = [&] { return layer(x).to_vector<float>(); };
  EXPECT_NE(once(), once());
  layer.eval();
  EXPECT_EQ(once(), once());
}

/// A checkpointed layer repeats its dropout, and gives the same gradients.
TEST(TransformerDecoderLayer, MayBeCheckpointed) {
  const Tensor x = randn({2, 5, 8}), memory = randn({2, 3, 8});
  std::vector<std::vector<float>> grads;
  for (const bool on : {false, true}) {
    manual_seed(3);
    nn::TransformerDecoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0.2});
    layer.set_checkpointed(on);
    const Tensor in = x.detach().set_requires_grad();
    const Tensor y = layer(in, memory, {.is_causal = true});
    sum(y * y).backward();
    grads.push_back(in.grad().to_vector<float>());
    grads.push_back(layer.self_attn.in_proj_weight.grad().to_vector<float>());
  }
  EXPECT_EQ(grads[0], grads[2]);
  EXPECT_EQ(grads[1], grads[3]);
}

TEST(MultiheadAttention, TakesAMaskForAllHeadsOrForEach) {
  nn::MultiheadAttention layer(6, 2);
  const Tensor x = randn({2, 3, 6}), mask = randn({3, 3}), y = layer(x, x, x, {.attn_mask = mask});
  const Tensor each = layer(x, x, x, {.attn_mask = expand(mask, {2, 2, 3, 3})});
  EXPECT_EQ(each.to_vector<float>(), y.to_vector<float>());
}

TEST(MultiheadAttention, RejectsBadInput) {
  EXPECT_THROWS_SAYING(nn::MultiheadAttention(6, 4), ValueError,
                       "MultiheadAttention needs a positive number of heads that divides embed_dim, got 4 and 6");
  EXPECT_THROWS_SAYING(nn::MultiheadAttention(6, 0), ValueError, "got 0 and 6");
  EXPECT_THROWS_SAYING(nn::MultiheadAttention(6, 2, {.dropout = -0.1}), ValueError, "a dropout in [0, 1], got -0.1");
  EXPECT_THROWS_SAYING(nn::MultiheadAttention(6, 2, {.dropout = 1.1}), ValueError, "a dropout in [0, 1], got 1.1");
  for (const double end : {0.0, 1.0}) EXPECT_NO_THROW(nn::MultiheadAttention(6, 2, {.dropout = end}));
  EXPECT_THROWS_SAYING(nn::MultiheadAttention(0, 2), ValueError, "got 2 and 0");
  nn::MultiheadAttention layer(6, 2);
  const auto expect_rejected = [&](const Tensor& query, const Tensor& key, const Tensor& value) {
    EXPECT_THROWS_SAYING(layer(query, key, value), ShapeError,
                         detail::concat("MultiheadAttention expects query (b, n, 6), "
                                        "and key and value (b, m, 6), got ",
                                        describe(query), ", ", describe(key), " and ", describe(value)));
  };
  const Tensor x = zeros({2, 3, 6}), flat = zeros({2, 6}), narrow = zeros({2, 3, 5});
  expect_rejected(flat, flat, flat);
  expect_rejected(narrow, x, x);
  expect_rejected({}, x, x);
  expect_rejected(x, {}, x);
  expect_rejected(x, narrow, x);
  expect_rejected(x, x, zeros({2, 4, 6}));
  expect_rejected(zeros({1, 3, 6}), x, x);
  expect_rejected(x, x, {});
  EXPECT_THROWS_SAYING(nn::MultiheadAttention(-6, 2), ValueError, "MultiheadAttention needs");
  EXPECT_THROWS_SAYING(layer(x, x, x, {.attn_mask = zeros({2, 3, 3})}), ShapeError,
                       "an attn_mask (n, m) or (b, h, n, m)");
  EXPECT_THROWS_SAYING(layer(x, x, x, {.attn_mask = zeros({3, 4})}), ShapeError,
                       "MultiheadAttention expects an attn_mask (n, m) or (b, h, n, m) that broadcasts "
                       "to (2, 2, 3, 3), got f32(3, 4)");
  EXPECT_THROWS_SAYING(layer(x, x, x, {.attn_mask = zeros({3, 3}, DType::f32, Device::meta())}), DeviceError,
                       "expects the attn_mask on the device of the tokens");
  EXPECT_THROWS_SAYING(layer(x, x, x, {.attn_mask = zeros({3, 3}, DType::i64)}), DTypeError,
                       "a bool or floating-point");
  EXPECT_THROWS_SAYING(layer(x, x, x, {.key_padding_mask = zeros({2, 3})}), DTypeError, "a bool key_padding_mask");
  for (const Shape& wrong : {Shape{2, 4}, {1, 3}, {2, 3, 1}, {2}})
    EXPECT_THROWS_SAYING(layer(x, x, x, {.key_padding_mask = zeros(wrong, DType::boolean)}), ShapeError,
                         detail::concat("a key_padding_mask (2, 3), got bool", wrong));
}

TEST(TransformerLayers, RejectBadInput) {
  EXPECT_THROWS_SAYING(nn::TransformerEncoderLayer(6, 4), ValueError,
                       "TransformerEncoderLayer needs a positive nhead that divides d_model, got 4 and 6");
  EXPECT_THROWS_SAYING(nn::TransformerEncoderLayer(6, 0), ValueError,
                       "a positive nhead that divides d_model, got 0 and");
  EXPECT_THROWS_SAYING(nn::TransformerEncoderLayer(6, -2), ValueError, "a positive nhead that divides d_model, got -2");
  EXPECT_THROWS_SAYING(nn::TransformerDecoderLayer(0, 2), ValueError,
                       "TransformerDecoderLayer needs a positive nhead that divides d_model, got 2 and 0");
  EXPECT_THROWS_SAYING(nn::TransformerEncoderLayer(6, 2, {.dim_feedforward = 0}), ValueError,
                       "TransformerEncoderLayer needs a positive dim_feedforward, got 0");
  EXPECT_THROWS_SAYING(nn::TransformerDecoderLayer(6, 2, {.dropout = 2}), ValueError,
                       "TransformerDecoderLayer needs a dropout in [0, 1], got 2");
  EXPECT_THROWS_SAYING(nn::TransformerEncoderLayer(6, 2, {.dropout = -0.5}), ValueError,
                       "TransformerEncoderLayer needs a dropout in [0, 1], got -0.5");
  EXPECT_NO_THROW(nn::TransformerEncoderLayer(6, 2, {.dropout = 1}));
  nn::TransformerEncoderLayer encoder(6, 2);
  for (const Tensor& src : {zeros({2, 6}), zeros({2, 3, 5}), Tensor()})
    EXPECT_THROWS_SAYING(encoder(src), ShapeError,
                         detail::concat("TransformerEncoderLayer expects src "
                                        "(b, n, 6), got ",
                                        describe(src)));
  const Tensor x = zeros({2, 3, 6});
  EXPECT_THROWS_SAYING(encoder(x, {.attn_mask = zeros({3, 4})}), ShapeError,
                       "module 'self_attn': MultiheadAttention expects an attn_mask");
  nn::TransformerDecoderLayer decoder(6, 2);
  for (const Tensor& memory : {zeros({2, 3, 5}), zeros({1, 3, 6}), Tensor()})
    EXPECT_THROWS_SAYING(decoder(x, memory), ShapeError,
                         detail::concat("TransformerDecoderLayer expects tgt "
                                        "(b, n, 6) and memory (b, m, 6), got f32(2, 3, 6) on cpu and ",
                                        describe(memory)));
  for (const Tensor& tgt : {zeros({2, 3, 5}), zeros({2, 6}), Tensor()})
    EXPECT_THROWS_SAYING(decoder(tgt, x), ShapeError, "TransformerDecoderLayer expects tgt (b, n, 6)");
}

}  // namespace
}  // namespace bytetape
