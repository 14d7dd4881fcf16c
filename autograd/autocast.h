#pragma once
#include <utility>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Enables mixed precision on this thread while it lives, on any device (torch.autocast):
///
///     const Autocast autocast(DType::bf16);
///     Tensor loss = cross_entropy(model(x), y);
///
/// - linear, matmul, conv2d and conv_transpose2d compute in the low dtype and return it.
/// - Losses, softmax, log_softmax, layer_norm, add_layer_norm, group_norm, norm, sum, cumsum, exp, log, pow, rsqrt,
///   softplus and number / tensor compute in f32 and return it.
/// - Ops of several tensors (x + y, x < y, maximum, where, cat, stack, batch_norm with a residual) use the widest
///   floating dtype of their inputs.
/// - All other ops, and in-place ops, keep the dtype of their input. f64 and integers never change.
///
/// Leaves that require grad, tensors of modules, and their gradients stay f32. Ops read a cached 16-bit copy of them,
/// which lasts until the parameter is written. Optimizers update the copy with the parameter. The ledger shows it under
/// the parameter's module with the role `autocast copy`. Other inputs are converted with to(), which is recorded on the
/// tape. Backward uses the dtypes of forward, wherever it is called.
class Autocast {
 public:
  /// `dtype` is bf16 or f16. f32 disables autocast inside another Autocast.
  /// Throws DTypeError if it is another dtype.
  [[nodiscard]] explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DType previous_;
};

/// The dtype that this thread's low-precision ops compute in. f32 outside any Autocast.
DType autocast_dtype();
/// Whether a 16-bit Autocast is active.
inline bool autocast_enabled() { return autocast_dtype() != DType::f32; }

/// \name For ops
/// Outside any Autocast these return their input unchanged. Undefined tensors stay undefined.
/// @{

/// Returns x in the dtype of low-precision ops.
Tensor autocast_copy(const Tensor& x);
/// Returns x as f32, for ops that compute in f32.
Tensor widened(const Tensor& x);
/// Whether an op of two tensors must convert them to promoted().
bool promotes(const Tensor& a, const Tensor& b);
/// Returns the wider of two floating dtypes; f32 for bf16 and f16.
DType promoted(DType a, DType b);
/// Returns a and b, both converted to promoted() if promotes(a, b).
std::pair<Tensor, Tensor> promoted_pair(const Tensor& a, const Tensor& b);

/// The input of a low-precision op that may be a parameter.
struct AutocastWeight {
  explicit AutocastWeight(const Tensor& x);
  Tensor value;    ///< the tensor that the kernel reads
  Tensor on_tape;  ///< the tensor to save, which gets the gradient: the parameter itself, else `value`
};
/// Returns the `value` of an AutocastWeight again, from its saved `on_tape`.
Tensor autocast_copy_again(const Tensor& on_tape, DType dtype);
/// @}

}  // namespace bytetape
