#pragma once
#include "bytetape/nn/attention.h"
#include "bytetape/nn/layers.h"
#include "bytetape/nn/norm.h"

namespace bytetape::nn {

/// The activation between the linear layers of a transformer layer. `gelu` is the exact one.
enum class FeedForward { relu, gelu };

/// The arguments of torch.nn.TransformerEncoderLayer and torch.nn.TransformerDecoderLayer.
struct TransformerOptions {
  std::int64_t dim_feedforward = 2048;         ///< features between the linear layers
  double dropout = 0.1;                        ///< of attention weights, of features, and before each sum
  FeedForward activation = FeedForward::relu;  ///< between the linear layers
  double layer_norm_eps = 1e-5;                ///< added to the variance
  bool norm_first = false;                     ///< normalise the input of each part, not its sum with the result
  bool bias = true;                            ///< whether linear and norm layers have biases
};

/// Self-attention and a feed-forward network, each added to its input (torch.nn.TransformerEncoderLayer with
/// batch_first=True; Vaswani et al., "Attention is all you need", 2017).
class TransformerEncoderLayer : public Module {
 public:
  /// Throws ValueError if a number is not positive, nhead does not divide d_model, or dropout is not in [0, 1].
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& options = {});
  /// Encodes src (b, n, d_model) without a mask.
  Tensor forward(const Tensor& src) override { return (*this)(src, AttentionMasks{}); }
  using Module::operator();
  /// Returns (b, n, d_model).
  /// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
  Tensor operator()(const Tensor& src, const AttentionMasks& masks);

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;

 private:
  FeedForward activation_;
  bool norm_first_;
};

/// Self-attention, attention to an encoder's output, and a feed-forward network, each added to its input
/// (torch.nn.TransformerDecoderLayer with batch_first=True).
class TransformerDecoderLayer : public Module {
 public:
  /// Throws ValueError if a number is not positive, nhead does not divide d_model, or dropout is not in [0, 1].
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& options = {});
  using Module::operator();
  /// Returns (b, n, d_model) for tgt (b, n, d_model) and memory (b, m, d_model). `tgt_masks` are those of the
  /// self-attention, `memory_masks` those of the attention to `memory`.
  /// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const AttentionMasks& tgt_masks = {},
                    const AttentionMasks& memory_masks = {});

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;

 private:
  FeedForward activation_;
  bool norm_first_;
};

}  // namespace bytetape::nn
