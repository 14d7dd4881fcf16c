#pragma once
#include <utility>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Mixed precision for a C++ scope, on its thread (torch.autocast), on every device:
///
///     const Autocast autocast(DType::bf16);
///     Tensor loss = cross_entropy(model(x), y);
///
/// - linear, matmul, conv2d and conv_transpose2d compute in the low dtype, and give it;
/// - losses, softmax, log_softmax, layer_norm, add_layer_norm, group_norm, norm, sum, exp, log, pow, rsqrt, softplus
/// and a number
///   divided by a tensor compute in f32, and give it;
/// - ops of several tensors (x + y, x < y, maximum, where, cat, stack, batch_norm with a residual) take the widest of
///   their floating dtypes;
/// - all others keep the dtype of their input, as do ops in place; f64 and integers stay what they are.
///
/// Leaves that require grad, and what modules hold, stay f32, as do their gradients: ops read a 16-bit copy that is
/// made once for as long as the parameter is not written, that optimizers write along, and that is `lowered parameter`
/// on the ledger, under the parameter's module. Other inputs are converted by to(), on the tape. Backward runs in the
/// dtypes that forward ran in, wherever it is called.
class Autocast {
 public:
  /// bf16 or f16; f32 switches autocast off inside another's scope. Throws DTypeError on other dtypes.
  [[nodiscard]] explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DType previous_;
};

/// What this thread's ops of low precision compute in; f32 outside any Autocast.
DType autocast_dtype();
/// True within an Autocast of 16 bits.
inline bool autocast_enabled() { return autocast_dtype() != DType::f32; }

/// \name For ops
/// Outside any Autocast these change nothing; undefined tensors stay undefined.
/// @{

/// x as an op of low precision takes it.
Tensor lowered(const Tensor& x);
/// x as an op takes it that needs f32.
Tensor widened(const Tensor& x);
/// True where an op of two tensors has to bring them to promoted().
bool promotes(const Tensor& a, const Tensor& b);
/// The wider of two floating dtypes; f32 for bf16 and f16.
DType promoted(DType a, DType b);
/// a and b, both in promoted() where one of them has to be.
std::pair<Tensor, Tensor> promoted_pair(const Tensor& a, const Tensor& b);

/// What may be a parameter, as an op of low precision takes it.
struct LoweredWeight {
  explicit LoweredWeight(const Tensor& x);
  Tensor value;    ///< for the kernel
  Tensor on_tape;  ///< what is saved and gets the gradient: the parameter itself, else the value
};
/// What was saved of one, as the op took it.
Tensor lowered_again(const Tensor& on_tape, DType dtype);
/// @}

}  // namespace bytetape
