#include "bytetape/nn/attention.h"

#include <limits>

#include "bytetape/autograd/ops/attention/attention.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/check.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/init.h"

namespace bytetape::nn {

namespace {

/// Returns the mask of scaled_dot_product_attention(): true, or 0, where a query may attend to a key.
Tensor joined_mask(const Tensor& attn_mask, const Tensor& key_padding_mask) {
  const bool is_boolean = attn_mask.defined() && attn_mask.dtype() == DType::boolean;
  const Tensor mask = is_boolean ? logical_not(attn_mask) : attn_mask;
  if (!key_padding_mask.defined()) return mask;
  const Tensor keys = unsqueeze(unsqueeze(logical_not(key_padding_mask), 1), 1);
  if (!mask.defined()) return keys;
  return is_boolean ? logical_and(keys, mask) : where(keys, mask, -std::numeric_limits<double>::infinity());
}

/// Returns embed_dim, if the layer can be constructed.
std::int64_t checked(std::int64_t embed_dim, std::int64_t num_heads, double dropout) {
  check<ValueError>(embed_dim > 0 && num_heads > 0 && embed_dim % num_heads == 0,
                    "MultiheadAttention needs a positive number of heads that divides embed_dim, got ", num_heads,
                    " and ", embed_dim);
  check<ValueError>(dropout >= 0 && dropout <= 1, "MultiheadAttention needs a dropout in [0, 1], got ", dropout);
  return embed_dim;
}

void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value, std::int64_t width) {
  const auto fits = [&](const Tensor& x) { return x.defined() && x.rank() == 3 && x.size(2) == width; };
  check(fits(query) && fits(key) && fits(value) && query.size(0) == key.size(0) && key.shape() == value.shape(),
        "MultiheadAttention expects query (b, n, ", width, "), and key and value (b, m, ", width, "), got ",
        describe(query), ", ", describe(key), " and ", describe(value));
}

/// Whether both are the same elements in memory: one tensor, or aliases of it.
bool are_aliases(const Tensor& a, const Tensor& b) {
  return &a.storage() == &b.storage() && a.storage_offset() == b.storage_offset() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

void check_device(const Tensor& mask, const char* name, const Tensor& tokens) {
  check<DeviceError>(mask.device() == tokens.device(), "MultiheadAttention expects the ", name,
                     " on the device of the tokens, got ", describe(mask), " for ", describe(tokens));
}

void check_mask(const Tensor& mask, const Tensor& query, const Tensor& key, std::int64_t heads) {
  if (!mask.defined()) return;
  check_device(mask, "attn_mask", query);
  check<DTypeError>(mask.dtype() == DType::boolean || is_floating(mask.dtype()),
                    "MultiheadAttention expects a bool or floating-point attn_mask, got ", describe(mask));
  const Shape scores{query.size(0), heads, query.size(1), key.size(1)};
  check((mask.rank() == 2 || mask.rank() == 4) && broadcasts_to(mask.shape(), scores),
        "MultiheadAttention expects an attn_mask (n, m) or (b, h, n, m) that broadcasts to ", scores, ", got ",
        describe(mask));
}

void check_padding(const Tensor& padding, const Tensor& key) {
  if (!padding.defined()) return;
  check_device(padding, "key_padding_mask", key);
  check<DTypeError>(padding.dtype() == DType::boolean, "MultiheadAttention expects a bool key_padding_mask, got ",
                    describe(padding));
  check(padding.rank() == 2 && padding.size(0) == key.size(0) && padding.size(1) == key.size(1),
        "MultiheadAttention expects a key_padding_mask (", key.size(0), ", ", key.size(1), "), got ",
        describe(padding));
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       MultiheadAttentionOptions options)
    : out_proj(checked(embed_dim, num_heads, options.dropout), embed_dim, options.bias),
      embed_dim_(embed_dim),
      num_heads_(num_heads),
      dropout_(options.dropout) {
  in_proj_weight = register_parameter("in_proj_weight", Shape{3 * embed_dim, embed_dim});
  init::xavier_uniform_(in_proj_weight);
  in_proj_bias = options.bias ? register_parameter("in_proj_bias", zeros(3 * embed_dim))
                              : register_parameter("in_proj_bias", Tensor());
  register_module("out_proj", out_proj);
  if (options.bias) init::zeros_(out_proj.bias);
}

/// Self-attention projects with one product.
MultiheadAttention::Projected MultiheadAttention::project(const Tensor& query, const Tensor& key, const Tensor& value,
                                                          bool is_self) const {
  if (is_self) {
    const std::vector<Tensor> parts = chunk(linear(query, in_proj_weight, in_proj_bias), 3, -1);
    return {parts[0], parts[1], parts[2]};
  }
  const std::vector<Tensor> weights = chunk(in_proj_weight, 3);
  const std::vector<Tensor> biases = in_proj_bias.defined() ? chunk(in_proj_bias, 3) : std::vector<Tensor>(3);
  return {linear(query, weights[0], biases[0]), linear(key, weights[1], biases[1]),
          linear(value, weights[2], biases[2])};
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionMasks& masks) {
  const bool is_self = query.is_same(key) && key.is_same(value);
  const double dropout = is_training() ? dropout_ : 0;
  const auto body = [this, is_self, dropout, is_causal = masks.is_causal](const Tensor& query, const Tensor& key,
                                                                          const Tensor& value, const Tensor& attn_mask,
                                                                          const Tensor& key_padding_mask) {
    check_inputs(query, key, value, embed_dim_);
    check_mask(attn_mask, query, key, num_heads_);
    check_padding(key_padding_mask, key);
    const auto heads = [this](const Tensor& x) {
      return transpose(view(x, {x.size(0), x.size(1), num_heads_, embed_dim_ / num_heads_}), 1, 2);
    };
    // A checkpoint passes aliases of one input, and a hook may have replaced some of them.
    const Projected x = project(query, key, value, is_self && are_aliases(query, key) && are_aliases(query, value));
    const Tensor y = scaled_dot_product_attention(
        heads(x.q), heads(x.k), heads(x.v),
        {.mask = joined_mask(attn_mask, key_padding_mask), .causal = is_causal, .dropout = dropout});
    return out_proj(reshape(transpose(y, 1, 2), query.shape()));
  };
  return call(*this, body, query, key, value, masks.attn_mask, masks.key_padding_mask);
}

std::string MultiheadAttention::describe() const {
  return detail::concat("MultiheadAttention(", embed_dim_, ", ", num_heads_, ")");
}

}  // namespace bytetape::nn
