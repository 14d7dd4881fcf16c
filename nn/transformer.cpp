#include "bytetape/nn/transformer.h"

#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/core/error.h"
#include "bytetape/nn/call.h"

namespace bytetape::nn {

namespace {

/// Returns d_model, if the layer `name` can be constructed.
std::int64_t checked(const char* name, std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o) {
  check<ValueError>(d_model > 0 && nhead > 0 && d_model % nhead == 0, name,
                    " needs a positive nhead that divides d_model, got ", nhead, " and ", d_model);
  check<ValueError>(o.dim_feedforward > 0, name, " needs a positive dim_feedforward, got ", o.dim_feedforward);
  check<ValueError>(o.dropout >= 0 && o.dropout <= 1, name, " needs a dropout in [0, 1], got ", o.dropout);
  return d_model;
}

/// Whether x is (b, n, d_model).
bool holds_tokens(const Tensor& x, const Linear& linear1) {
  return x.defined() && x.rank() == 3 && x.size(2) == linear1.weight.size(1);
}

LayerNormOptions norm_options(const TransformerOptions& o) { return {.eps = o.layer_norm_eps, .bias = o.bias}; }
MultiheadAttentionOptions attention_options(const TransformerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias};
}

/// The network of both layers: linear2(dropout(activation(linear1(x)))).
Tensor feed_forward(const Tensor& x, Linear& linear1, Dropout& dropout, Linear& linear2, FeedForward activation) {
  const Tensor hidden = activation == FeedForward::relu ? linear1(x, Activation::relu) : gelu(linear1(x));
  return linear2(dropout(hidden));
}

/// Returns x + part(norm(x)) or norm(x + part(x)).
template <class F>
Tensor add_part(const Tensor& x, LayerNorm& norm, bool norm_first, const F& part) {
  return norm_first ? x + part(norm(x)) : norm(part(x), x).y;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o)
    : self_attn(checked("TransformerEncoderLayer", d_model, nhead, o), nhead, attention_options(o)),
      linear1(d_model, o.dim_feedforward, o.bias),
      linear2(o.dim_feedforward, d_model, o.bias),
      norm1({d_model}, norm_options(o)),
      norm2({d_model}, norm_options(o)),
      dropout(o.dropout),
      dropout1(o.dropout),
      dropout2(o.dropout),
      activation_(o.activation),
      norm_first_(o.norm_first) {
  register_module("self_attn", self_attn);
  register_module("linear1", linear1), register_module("dropout", dropout), register_module("linear2", linear2);
  register_module("norm1", norm1), register_module("norm2", norm2);
  register_module("dropout1", dropout1), register_module("dropout2", dropout2);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const AttentionMasks& masks) {
  const auto body = [this, is_causal = masks.is_causal](const Tensor& src, const Tensor& attn_mask,
                                                        const Tensor& key_padding_mask) {
    check(holds_tokens(src, linear1), "TransformerEncoderLayer expects src (b, n, ", linear1.weight.size(1), "), got ",
          bytetape::describe(src));
    const auto attend = [&](const Tensor& x) {
      return dropout1(self_attn(x, x, x, {attn_mask, key_padding_mask, is_causal}));
    };
    const auto feed = [&](const Tensor& x) {
      return dropout2(feed_forward(x, linear1, dropout, linear2, activation_));
    };
    return add_part(add_part(src, norm1, norm_first_, attend), norm2, norm_first_, feed);
  };
  return call(*this, body, src, masks.attn_mask, masks.key_padding_mask);
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& o)
    : self_attn(checked("TransformerDecoderLayer", d_model, nhead, o), nhead, attention_options(o)),
      multihead_attn(d_model, nhead, attention_options(o)),
      linear1(d_model, o.dim_feedforward, o.bias),
      linear2(o.dim_feedforward, d_model, o.bias),
      norm1({d_model}, norm_options(o)),
      norm2({d_model}, norm_options(o)),
      norm3({d_model}, norm_options(o)),
      dropout(o.dropout),
      dropout1(o.dropout),
      dropout2(o.dropout),
      dropout3(o.dropout),
      activation_(o.activation),
      norm_first_(o.norm_first) {
  register_module("self_attn", self_attn), register_module("multihead_attn", multihead_attn);
  register_module("linear1", linear1), register_module("dropout", dropout), register_module("linear2", linear2);
  register_module("norm1", norm1), register_module("norm2", norm2), register_module("norm3", norm3);
  register_module("dropout1", dropout1), register_module("dropout2", dropout2), register_module("dropout3", dropout3);
}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory, const AttentionMasks& tgt_masks,
                                           const AttentionMasks& memory_masks) {
  const auto body = [this, is_causal = tgt_masks.is_causal, is_memory_causal = memory_masks.is_causal](
                        const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask, const Tensor& tgt_padding,
                        const Tensor& memory_mask, const Tensor& memory_padding) {
    const std::int64_t width = linear1.weight.size(1);
    check(holds_tokens(tgt, linear1) && holds_tokens(memory, linear1) && tgt.size(0) == memory.size(0),
          "TransformerDecoderLayer expects tgt (b, n, ", width, ") and memory (b, m, ", width, "), got ",
          bytetape::describe(tgt), " and ", bytetape::describe(memory));
    const auto attend = [&](const Tensor& x) {
      return dropout1(self_attn(x, x, x, {tgt_mask, tgt_padding, is_causal}));
    };
    const auto look_up = [&](const Tensor& x) {
      return dropout2(multihead_attn(x, memory, memory, {memory_mask, memory_padding, is_memory_causal}));
    };
    const auto feed = [&](const Tensor& x) {
      return dropout3(feed_forward(x, linear1, dropout, linear2, activation_));
    };
    const Tensor attended = add_part(tgt, norm1, norm_first_, attend);
    return add_part(add_part(attended, norm2, norm_first_, look_up), norm3, norm_first_, feed);
  };
  return call(*this, body, tgt, memory, tgt_masks.attn_mask, tgt_masks.key_padding_mask, memory_masks.attn_mask,
              memory_masks.key_padding_mask);
}

}  // namespace bytetape::nn
