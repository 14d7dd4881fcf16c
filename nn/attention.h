#pragma once
#include "bytetape/nn/linear.h"

namespace bytetape::nn {

/// The arguments of torch.nn.MultiheadAttention.
struct MultiheadAttentionOptions {
  double dropout = 0;  ///< the probability with which a weight is dropped in training mode
  bool bias = true;    ///< whether the projections have biases
};

/// The masks of a call of MultiheadAttention. As in PyTorch's layer, and unlike in scaled_dot_product_attention(), true
/// in a bool mask means that the key is not attended to.
struct AttentionMasks {
  Tensor attn_mask = {};         ///< (n, m) or (b, h, n, m), bool or floating-point; a float is added to the scores
  Tensor key_padding_mask = {};  ///< (b, m), bool: true for padding
  bool is_causal = false;        ///< query i attends only to keys 0 to i, and the masks still apply
};

/// Attention of several heads with projections (torch.nn.MultiheadAttention with batch_first=True; Vaswani et al.,
/// "Attention is all you need", 2017).
/// Each head is scaled_dot_product_attention() of embed_dim / num_heads columns. in_proj_weight is initialised as
/// xavier_uniform_, out_proj.weight as Linear, biases to 0. Unlike PyTorch's layer, it returns no weights, has no kdim,
/// vdim, add_bias_kv or add_zero_attn, and is_causal needs no attn_mask.
class MultiheadAttention : public Module {
 public:
  /// Throws ValueError if a number is not positive, num_heads does not divide embed_dim, or dropout is not in [0, 1].
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, MultiheadAttentionOptions options = {});
  /// Self-attention of x (b, n, embed_dim) without a mask.
  Tensor forward(const Tensor& x) override { return (*this)(x, x, x); }
  using Module::operator();
  /// Returns (b, n, embed_dim) for query (b, n, embed_dim), and key and value (b, m, embed_dim). A query that may
  /// attend to no key gives out_proj.bias.
  /// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMasks& masks = {});
  std::string describe() const override;

  Parameter in_proj_weight, in_proj_bias;  ///< (3 embed_dim, embed_dim) and (3 embed_dim): query, key, value
  Linear out_proj;

 private:
  struct Projected {
    Tensor q, k, v;
  };
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value, bool is_self) const;

  std::int64_t embed_dim_, num_heads_;
  double dropout_;
};

}  // namespace bytetape::nn
