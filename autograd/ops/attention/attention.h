#pragma once
#include <optional>

#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Whether AttentionOptions::fused is true unless given, in layers too (torch.backends.cuda.enable_cudnn_sdp). Holds
/// for all threads. Backward does as its forward did, also in a checkpoint. Default: true.
bool fused_attention();
void set_fused_attention(bool on);

/// The arguments of torch.nn.functional.scaled_dot_product_attention.
struct AttentionOptions {
  /// Broadcasts to (b, h, n, m), the shape of the scores. A bool mask is true where a query may attend to a key. A
  /// floating-point mask has the dtype of q or f32, and is added to the scores. Default: undefined, no mask.
  Tensor mask = {};
  bool causal = false;                          ///< query i attends only to keys 0 to i, and the mask still applies
  double dropout = 0;                           ///< the probability that an attention weight is dropped
  std::optional<double> scale = {};             ///< default: 1 / sqrt(d)
  Generator* generator = &default_generator();  ///< draws the dropout
  bool fused = fused_attention();               ///< on a GPU, use fused kernels if they take the arguments
};

/// Computes dropout(softmax(scale q k^T + mask)) v (torch.nn.functional.scaled_dot_product_attention; Vaswani et al.,
/// "Attention is all you need", 2017).
/// - `q`: (b, h, n, d), floating-point. `k`: (b, g, m, d). `v`: (b, g, m, e). Any strides.
/// - g divides h. Head i of q attends to head i / (h / g) of k and v (grouped queries, `enable_gqa` in PyTorch).
///
/// Returns (b, h, n, e). The result of a query that may attend to no key is 0, with gradient 0, if v is finite.
/// Differentiable to any order, also in a floating-point mask.
///
/// Both passes work in tiles. With create_graph, or if the mask requires grad, backward computes all scores at once. On
/// a GPU, cuDNN computes 16-bit attention without a mask, for head sizes that are multiples of 8 up to 128, and two or
/// more keys. With dropout, it drops other weights than the CPU (docs/decisions.md), and the same again in backward.
///
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if dropout is not in [0, 1], or the generator is null.
/// Throws Error, with cuDNN's reason, if cuDNN refuses.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace bytetape
