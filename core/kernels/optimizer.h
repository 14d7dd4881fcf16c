#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Step params are all that a parameter steps by, told once, on the host and in double: its group's options, and what
// follows from the step's number. Kernels take it by value, or `replay_params`: from memory of their device that holds
// the same step params, by when the kernel runs. So a captured step, whose arguments are frozen, goes on stepping. No
// byte of one is padding.
//
// Under a gradient scaler only the device knows which steps were taken. There `step` counts those that it was given,
// and a kernel takes off what the slot says was skipped: it steps by the step params that are left.

/// Of torch.optim.SGD.
struct SgdStepParams {
  double lr, momentum, dampening, weight_decay;
  std::int64_t is_nesterov;  // 0 or 1
  std::int64_t step;         // from 1: then the momentum buffer holds nothing yet and becomes the gradient
  friend bool operator==(const SgdStepParams&, const SgdStepParams&) = default;
};
constexpr SgdStepParams at_step(SgdStepParams step_params, std::int64_t step) {
  step_params.step = step;
  return step_params;
}

/// Of torch.optim.Adam, and of AdamW, whose decay is decoupled.
struct AdamStepParams {
  double lr, beta1, beta2, eps;
  double weight_decay;  // that goes through the running averages
  double keep;          // of the parameter: 1 - lr * weight_decay where that is decoupled, else 1
  std::int64_t step;    // the last three are at_step()'s
  double rate;          // lr / (1 - beta1^step)
  double root2;         // sqrt(1 - beta2^step)
  friend bool operator==(const AdamStepParams&, const AdamStepParams&) = default;
};

/// base^n by squaring: products alone, so that every device has the same bits.
constexpr double power(double base, std::int64_t n) {
  double y = 1;
  for (; n > 0; n /= 2, base *= base)
    if (n % 2) y *= base;
  return y;
}

/// The step params of step number `step`. A template because std::sqrt, which it calls, is constexpr in no compiler's
/// C++20, and nvcc takes what is not marked so for the host's alone.
template <class Int>
constexpr AdamStepParams at_step(AdamStepParams step_params, Int step) {
  step_params.step = step;
  step_params.rate = step_params.lr / (1 - power(step_params.beta1, step));
  step_params.root2 = std::sqrt(1 - power(step_params.beta2, step));
  return step_params;
}

/// Of a moving average.
struct EmaStepParams {
  double weight;  // of what comes
  friend bool operator==(const EmaStepParams&, const EmaStepParams&) = default;
};

/// The step params of a step before which so many were skipped.
template <class StepParams>
constexpr StepParams after_skips(const StepParams& given, std::int64_t skipped) {
  if constexpr (requires { given.step; })
    return at_step(given, given.step - skipped);
  else
    return given;
}

/// What a parameter of every optimizer has. The views are dense, of the same strides and dtype, but for `shadow`: a
/// 16-bit copy of an f32 parameter, written with it, or undefined. While a fault is pending (core/device/fault.h), and
/// where `found_inf` of the step is not 0, a kernel writes nothing but adds 1 to `skipped`, in memory of the device;
/// null where kernels throw at once and no gradient scaler was seen, or where nobody counts.
struct OptimizerSlot {
  View parameter;
  ConstView gradient;
  View shadow = {};
  std::int64_t* skipped = nullptr;
};

/// What is kept of a parameter for SGD: momentum_buffer is undefined where it has taken no step with momentum.
struct SgdSlot : OptimizerSlot {
  View momentum_buffer = {};
};
/// What is kept of a parameter for Adam.
struct AdamSlot : OptimizerSlot {
  View exp_avg, exp_avg_sq;
};

/// What slots step by.
template <class StepParams>
struct OptimizerParams {
  std::span<const StepParams> step_params;  // by slot
  const StepParams* replay_params = nullptr;
  const float* found_inf = nullptr;  // of a gradient scaler, in memory of the device
  /// The thrown faults (Backend::faults_thrown) that the step params take into account. After one more the step is
  /// skipped: steps that count as taken may not have been. Nothing where the device counts.
  std::optional<std::uint64_t> faults_seen = {};
};
using SgdParams = OptimizerParams<SgdStepParams>;
using AdamParams = OptimizerParams<AdamStepParams>;
using EmaParams = OptimizerParams<EmaStepParams>;

/// norm = sqrt(sum of squares of all gradients), a scalar, f64 or f32; then every gradient takes on the factor
/// min(1, max_norm / (norm + 1e-6)), but while a fault is pending. The gradients are dense, and none
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
  /// Of averages, in the place of parameters, towards what is in the place of gradients (torch.lerp).
  void (*ema)(std::span<const OptimizerSlot> slots, const EmaParams& p);
  /// Brings every element into [-clip_value, clip_value], but NaN, which stays; nothing while a fault is pending. The
  /// gradients are dense, and none shares memory with another.
  void (*clip_grad_value)(std::span<const View> gradients, double clip_value);
  Planned<ClipGradNormArgs> clip_grad_norm;
};

}  // namespace bytetape
