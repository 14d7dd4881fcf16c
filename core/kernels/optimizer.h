#pragma once
#include <cmath>
#include <cstdint>
#include <span>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// A pace is what changes from step to step of a parameter, told once, on the host and in double. Kernels take it by
// value, or `carried`: from memory of their device that holds the same paces, by when the kernel runs. So a captured
// step, whose arguments are frozen, goes on stepping.
//
// Under a gradient scaler only the device knows which steps were taken. There `step` counts those that it was given,
// and a kernel takes off what the slot says was skipped: it steps at the pace that is left.

struct SgdPace {
  double lr;
  std::int64_t step;  // from 1: then the momentum buffer holds nothing yet and becomes the gradient
  friend bool operator==(const SgdPace&, const SgdPace&) = default;
};
struct AdamPace {
  double lr;
  double keep;  // of the parameter: 1 - lr * weight_decay where that is decoupled
  std::int64_t step;
  double rate;   // lr / (1 - beta1^step)
  double root2;  // sqrt(1 - beta2^step)
  friend bool operator==(const AdamPace&, const AdamPace&) = default;
};

/// base^n by squaring: products alone, so that every device has the same bits.
constexpr double power(double base, std::int64_t n) {
  double y = 1;
  for (; n > 0; n /= 2, base *= base)
    if (n % 2) y *= base;
  return y;
}

/// The pace of step number `step`. A template because std::sqrt, which it calls, is constexpr in no compiler's C++20,
/// and nvcc takes what is not marked so for the host's alone.
template <class Int>
constexpr AdamPace adam_pace(double lr, double keep, double beta1, double beta2, Int step) {
  return {lr, keep, step, lr / (1 - power(beta1, step)), std::sqrt(1 - power(beta2, step))};
}

/// What a parameter of every optimizer has. The views are dense, of the same strides and dtype, but for `shadow`: a
/// 16-bit copy of an f32 parameter, written with it, or undefined. While a fault is pending on its device, and where
/// `found_inf` of the step is not 0, a kernel writes nothing but adds 1 to `skipped`, in memory of the device; null
/// where kernels throw at once and no gradient scaler was seen.
struct OptimizerSlot {
  View parameter;
  ConstView gradient;
  View shadow = {};
  std::int64_t* skipped = nullptr;
};

/// One parameter of an SGD step (torch.optim.SGD): momentum_buffer is undefined where momentum is 0.
struct SgdSlot : OptimizerSlot {
  View momentum_buffer = {};
};
struct SgdParams {
  std::span<const SgdPace> paces;  // by slot
  double momentum, dampening, weight_decay;
  bool nesterov;
  const SgdPace* carried = nullptr;
  const float* found_inf = nullptr;  // of a gradient scaler, in memory of the device
};

/// One parameter of an Adam step (torch.optim.Adam, AdamW with a decoupled decay).
struct AdamSlot : OptimizerSlot {
  View exp_avg, exp_avg_sq;
};
struct AdamParams {
  std::span<const AdamPace> paces;         // by slot
  double beta1, beta2, eps, weight_decay;  // the decay that goes through the running averages
  const AdamPace* carried = nullptr;
  const float* found_inf = nullptr;  // of a gradient scaler, in memory of the device
};

/// norm = sqrt(sum of squares of all gradients), a scalar, f64 or f32; then every gradient takes on the factor
/// min(1, max_norm / (norm + 1e-6)), but while a fault is pending on its device. The gradients are dense, and none
/// shares memory with another.
struct ClipGradNormArgs {
  std::span<const View> gradients;
  View norm;
  double max_norm;
};

/// Every parameter in one call.
struct OptimizerKernels {
  void (*sgd)(std::span<const SgdSlot> slots, const SgdParams& p);
  void (*adam)(std::span<const AdamSlot> slots, const AdamParams& p);
  Planned<ClipGradNormArgs> clip_grad_norm;
};

}  // namespace bytetape
