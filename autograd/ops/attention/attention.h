#pragma once
#include <optional>

#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The arguments of torch.nn.functional.scaled_dot_product_attention.
struct AttentionOptions {
  /// Broadcasts to (b, h, n, m). bool: true where a query may attend to a key. Floating-point: added to the scores, in
  /// the dtype of q or f32. Undefined: no mask.
  Tensor mask = {};
  bool causal = false;                          ///< query i attends to keys 0 to i alone, if the mask allows them
  double dropout = 0;                           ///< the probability with which a weight is dropped
  std::optional<double> scale = {};             ///< default: 1 / sqrt(d)
  Generator* generator = &default_generator();  ///< draws the dropout
  bool fused = true;                            ///< on a GPU, use cuDNN's fused kernels if they take the arguments
};

/// Computes dropout(softmax(scale q k^T + mask)) v (torch.nn.functional.scaled_dot_product_attention; Vaswani et al.,
/// "Attention is all you need", 2017).
/// - `q`: (b, h, n, d), floating-point. `k`: (b, g, m, d). `v`: (b, g, m, e). Any strides.
/// - g divides h. Head i of q attends to head i / (h / g) of k and v (grouped queries, `enable_gqa` in PyTorch).
///
/// Returns (b, h, n, e). A query that may attend to no key gives 0, with gradient 0, if v is finite. Forward and
/// backward work in tiles. Two cases compute the whole tensor of scores in backward: create_graph, and a mask that
/// requires grad.
/// On a GPU, cuDNN computes 16-bit attention without a mask or dropout, for head sizes that are multiples of 8 up to
/// 128. Throws Error with cuDNN's reason if it refuses.
///
/// Differentiable to any order, also in a floating-point mask. Throws ShapeError, DTypeError or DeviceError if the
/// tensors do not fit. Throws ValueError if dropout is not in [0, 1], or the generator is null.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace bytetape
