#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Attention of new tokens to all earlier tokens of their row, whose keys and values are in a cache. For generation;
/// nn::KeyValueCache holds such a cache.
/// - `q`: (n, heads, t, d), floating-point. `k` and `v`: (n, kv_heads, t, d). d is at most 256. Any strides.
/// - `keys` and `values`: (n, kv_heads, capacity, d), the cache. k and v are written at [position, position + t).
/// - `positions`: i64 (n), the number of tokens that the cache holds of each row. They are not advanced.
///
/// kv_heads divides heads. Head i of q reads head i / (heads / kv_heads) (grouped queries). New token i attends to the
/// tokens 0 to position + i, with the scale 1 / sqrt(d). Returns (n, heads, t, d), in whose memory a token's heads are
/// adjacent. Under Autocast, all tensors keep their dtype. Not differentiable.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws AutogradError if a gradient would be recorded: call it under NoGrad.
/// Throws ValueError if elements of the cache share memory. A position outside [0, capacity - t] is a fault
/// (core/device/fault.h), after which the cache is unchanged.
Tensor cached_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys, const Tensor& values,
                        const Tensor& positions);

}  // namespace bytetape
