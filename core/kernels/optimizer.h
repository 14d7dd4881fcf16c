#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Step params are the options of a parameter's group and the values derived from the step number, computed on the host
// in double. Kernels take them by value. In a captured step, whose arguments are frozen, they read `replay_params`
// instead: device memory with the step params of the current replay. The structs have no padding.
//
// With a gradient scaler only the device knows which steps were skipped. `step` then counts all steps, and the kernel
// subtracts the skipped ones that the slot counts.

/// Step params of torch.optim.SGD.
struct SgdStepParams {
  double lr, momentum, dampening, weight_decay;
  std::int64_t is_nesterov;  // 0 or 1
  std::int64_t step;         // from 1; in step 1 the momentum buffer becomes the gradient
  friend bool operator==(const SgdStepParams&, const SgdStepParams&) = default;
};
constexpr SgdStepParams at_step(SgdStepParams params, std::int64_t step) {
  params.step = step;
  return params;
}

/// Step params of torch.optim.Adam, and of AdamW, whose weight decay is decoupled.
struct AdamStepParams {
  double lr, beta1, beta2, eps;
  double weight_decay;  // not decoupled: added to the gradient
  double keep;          // factor of the parameter: 1 - lr * weight_decay if decoupled, else 1
  std::int64_t step;    // this and the next two are set by at_step()
  double rate;          // lr / (1 - beta1^step)
  double root2;         // sqrt(1 - beta2^step)
  friend bool operator==(const AdamStepParams&, const AdamStepParams&) = default;
};

/// base^n by squaring. It uses products only, so that all devices have the same bits.
constexpr double power(double base, std::int64_t n) {
  double y = 1;
  for (; n > 0; n /= 2, base *= base)
    if (n % 2) y *= base;
  return y;
}

/// Returns the step params of step number `step`. A template because std::sqrt is not constexpr in C++20, and nvcc
/// compiles functions without constexpr for the host only.
template <class Int>
constexpr AdamStepParams at_step(AdamStepParams params, Int step) {
  params.step = step;
  params.rate = params.lr / (1 - power(params.beta1, step));
  params.root2 = std::sqrt(1 - power(params.beta2, step));
  return params;
}

/// Step params of torch.optim.RMSprop.
struct RmspropStepParams {
  double lr, alpha, eps, weight_decay, momentum;
  std::int64_t is_centered;  // 0 or 1
  friend bool operator==(const RmspropStepParams&, const RmspropStepParams&) = default;
};

/// Step params of torch.optim.Muon.
struct MuonStepParams {
  double lr;    // times the factor for the parameter's shape
  double keep;  // factor of the parameter: 1 - lr * weight_decay
  double momentum;
  std::int64_t is_nesterov;  // 0 or 1
  friend bool operator==(const MuonStepParams&, const MuonStepParams&) = default;
};

/// Step params of a moving average.
struct EmaStepParams {
  double weight;  // weight of the new value
  friend bool operator==(const EmaStepParams&, const EmaStepParams&) = default;
};

/// Returns the step params of a step before which `skipped` steps were skipped.
template <class StepParams>
constexpr StepParams after_skips(const StepParams& given, std::int64_t skipped) {
  if constexpr (requires { given.step; })
    return at_step(given, given.step - skipped);
  else
    return given;
}

/// The tensors of one parameter, for all optimizers. Views are dense, of equal strides and dtype. Exceptions: the
/// gradient of an f32 parameter may have 16 bits; `shadow`, a 16-bit copy of an f32 parameter, is written with it, or
/// undefined.
/// While a fault is pending (core/device/fault.h), or if the step's `found_inf` is not 0, a kernel only adds 1 to
/// `skipped`, in device memory. `skipped` is null if kernels throw at once and there is no gradient scaler, or if
/// skipped steps are not counted.
struct OptimizerSlot {
  View parameter;
  ConstView gradient;
  View shadow = {};
  std::int64_t* skipped = nullptr;

  /// The parameter is read and written.
  std::uint64_t moved_bytes() const {
    return 2 * bytetape::moved_bytes(parameter) + bytetape::moved_bytes(gradient) + bytetape::moved_bytes(shadow);
  }
};

/// The tensors of one parameter for SGD. momentum_buffer is undefined before the first step with momentum.
struct SgdSlot : OptimizerSlot {
  View momentum_buffer = {};

  std::uint64_t moved_bytes() const {
    return OptimizerSlot::moved_bytes() + 2 * bytetape::moved_bytes(momentum_buffer);
  }
};
/// The tensors of one parameter for Adam.
struct AdamSlot : OptimizerSlot {
  View exp_avg, exp_avg_sq;

  std::uint64_t moved_bytes() const {
    return OptimizerSlot::moved_bytes() + 2 * (bytetape::moved_bytes(exp_avg) + bytetape::moved_bytes(exp_avg_sq));
  }
};
/// The tensors of one parameter for RMSprop. momentum_buffer is undefined before the first step with momentum, and
/// grad_avg before the first centered step.
struct RmspropSlot : OptimizerSlot {
  View square_avg, momentum_buffer = {}, grad_avg = {};

  std::uint64_t moved_bytes() const {
    return OptimizerSlot::moved_bytes() +
           2 * (bytetape::moved_bytes(square_avg) + bytetape::moved_bytes(momentum_buffer) +
                bytetape::moved_bytes(grad_avg));
  }
};

/// The tensors of one parameter for Muon. `direction` is the orthogonalized update, with the parameter's strides and a
/// dtype that a gradient may have.
struct MuonSlot : OptimizerSlot {
  View momentum_buffer;
  ConstView direction;

  std::uint64_t moved_bytes() const {
    return OptimizerSlot::moved_bytes() + 2 * bytetape::moved_bytes(momentum_buffer) + bytetape::moved_bytes(direction);
  }
};

/// The slots with indices from `first` on have gradients that other streams may still write. A kernel calls wait()
/// before it uses these slots. It may update the other slots earlier.
struct LateSlots {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::function<void()> wait = {};
};

/// The step params of all slots.
template <class StepParams>
struct OptimizerParams {
  std::span<const StepParams> step_params;  // one per slot
  const StepParams* replay_params = nullptr;
  const float* found_inf = nullptr;  // of a gradient scaler, in device memory
  /// The number of thrown faults (Backend::faults_thrown) that the step params account for. If there are more by now,
  /// the step is skipped, because earlier steps may have been. Empty if the device counts skipped steps.
  std::optional<std::uint64_t> faults_seen = {};
  LateSlots late = {};
};
using SgdParams = OptimizerParams<SgdStepParams>;
using AdamParams = OptimizerParams<AdamStepParams>;
using RmspropParams = OptimizerParams<RmspropStepParams>;
using MuonParams = OptimizerParams<MuonStepParams>;
using EmaParams = OptimizerParams<EmaStepParams>;

/// norm = sqrt(sum of squares of all gradients), a scalar, f64 or f32. Then every gradient is multiplied by min(1,
/// max_norm / (norm + 1e-6)), unless a fault is pending. Gradients are dense and share no memory.
struct ClipGradNormArgs {
  std::span<const View> gradients;
  View norm;
  double max_norm;

  /// Gradients are read for the norm, and then read and written.
  std::uint64_t moved_bytes() const {
    return detail::bytes_of_fields(*this) + 2 * detail::bytes_of_argument(gradients);
  }
};

/// For each slot of a Muon step: direction = u / max(|u|, eps), with the Frobenius norm |u|. With the buffer's next
/// value b = momentum * buffer + (1 - momentum) * gradient, u is b, or (1 - momentum) * gradient + momentum * b with
/// Nesterov. Only `directions` is written.
struct MuonDirectionArgs {
  std::span<const MuonSlot> slots;
  std::span<const View> directions;  // one per slot, with the slot's strides: bf16 on CUDA, else the slot's or f32
  std::span<const double> eps;       // one per slot
  MuonParams params;

  /// Only gradients and momentum buffers of the slots are read.
  std::uint64_t moved_bytes() const {
    std::uint64_t bytes = detail::bytes_of_argument(directions);
    for (const MuonSlot& s : slots)
      bytes += bytetape::moved_bytes(s.gradient) + bytetape::moved_bytes(s.momentum_buffer);
    return bytes;
  }
};

/// Kernels that update all parameters in one call.
struct OptimizerKernels {
  void (*sgd)(std::span<const SgdSlot> slots, const SgdParams& p);
  void (*adam)(std::span<const AdamSlot> slots, const AdamParams& p);
  void (*rmsprop)(std::span<const RmspropSlot> slots, const RmspropParams& p);
  /// Updates parameters by their directions, and momentum buffers by gradients.
  void (*muon)(std::span<const MuonSlot> slots, const MuonParams& p);
  Planned<MuonDirectionArgs> muon_direction;
  /// square = c[0] * I + c[1] * gram + c[2] * square, for dense symmetric matrices (batch, n, n) of one dtype.
  void (*muon_polynomial)(const ConstView& gram, const View& square, const std::array<double, 3>& c);
  /// Moves averages (in place of parameters) towards values (in place of gradients) (torch.lerp).
  void (*ema)(std::span<const OptimizerSlot> slots, const EmaParams& p);
  /// Clamps every element to [-clip_value, clip_value]. NaN stays NaN. Does nothing while a fault is pending. Gradients
  /// are dense and share no memory.
  void (*clip_grad_value)(std::span<const View> gradients, double clip_value);
  Planned<ClipGradNormArgs> clip_grad_norm;
};

}  // namespace bytetape
