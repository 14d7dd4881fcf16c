#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "bytetape/core/kernels/grad_scale.h"
#include "bytetape/core/state_dict.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// The options of torch.amp.GradScaler.
struct GradScalerOptions {
  double init_scale = 65536;    ///< initial scale
  double growth_factor = 2;     ///< factor of the scale after growth_interval consecutive steps without overflow
  double backoff_factor = 0.5;  ///< factor of the scale after a step with overflow
  std::int32_t growth_interval = 2000;  ///< steps
  bool enabled = true;                  ///< if false, scale() returns its argument and step() is optimizer.step()
};

/// Scales losses so that small f16 gradients do not underflow (torch.amp.GradScaler; Micikevicius et al., "Mixed
/// precision training", 2018).
///
/// backward() starts from a scaled loss. Gradients are divided by the scale before the optimizer's step. A step with
/// gradients that are not finite is skipped. The scale is kept as high as possible.
///
///     optim::GradScaler scaler;
///     for (const auto& [x, target] : loader) {
///       optimizer.zero_grad();
///       Tensor loss;
///       {
///         const Autocast autocast(DType::f16);
///         loss = cross_entropy(model(x), target);
///       }
///       scaler.scale(loss).backward();
///       scaler.unscale_(optimizer);  // only needed if gradients are used before the step, as here
///       optim::clip_grad_norm_(model.parameters(), 1.0);
///       scaler.step(optimizer);
///       scaler.update();
///     }
///
/// The scale, its age and the overflow flags are tensors on the device of the losses, with the role `optimizer state`.
/// The first loss creates them. The host does not wait for them. The device counts skipped steps, so that step counts
/// are right (Adam's bias correction). All functions can be part of a captured step (autograd/capture.h), with or
/// without update().
class GradScaler {
 public:
  /// Throws ValueError, naming the argument, unless init_scale is a positive normal number of f32, growth_factor is
  /// finite and above 1, backoff_factor is in (0, 1) and growth_interval is at least 1.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  /// Returns outputs * scale in f32, or f64 if `outputs` is f64. Recorded on the tape.
  /// Throws DTypeError if `outputs` is not floating.
  /// Throws DeviceError if an earlier call was on another device.
  Tensor scale(const Tensor& outputs);
  /// Multiplies the gradients of the optimizer's parameters by 1 / scale in place, and notes whether any is not finite.
  ///
  /// May be called once per optimizer between two updates, or again after optimizer.zero_grad(). step() calls it if it
  /// was not called.
  ///
  /// Throws ValueError if it was already called, nothing was scaled before, or no parameter has a gradient.
  /// Throws DTypeError if a gradient is f16, which has already underflowed.
  /// Throws what clip_grad_norm_ throws for the gradients.
  void unscale_(Optimizer& optimizer);
  /// Takes optimizer.step(), unless a gradient was not finite.
  /// Throws ValueError on a second call before update().
  /// Throws what unscale_() and the optimizer throw. step() can then be called again.
  void step(Optimizer& optimizer);
  /// Updates the scale: backs it off if a gradient since the last update was not finite, else grows it when it is due.
  /// Throws ValueError if no gradients were unscaled since the last update.
  void update();

  /// Returns the current scale; 1 if not enabled. Waits for the device.
  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }

  /// Returns the state: "scale", "growth_factor", "backoff_factor", "growth_interval" and "growth_tracker". Waits for
  /// the device.
  StateDict state_dict() const;
  /// Restores a state, also if not enabled.
  /// Throws ValueError if a value is one that the constructor refuses, growth_tracker is negative, or a name is missing
  /// or unexpected. Nothing has changed then.
  void load_state_dict(const StateDict& state);

 private:
  enum class Stage { ready, unscaled, stepped };
  /// The stage of an optimizer since the last update.
  struct Known {
    std::weak_ptr<const bool> alive;
    Stage stage = Stage::ready;
    std::uint64_t zeroed = 0;  // number of its zero_grad() calls when it was unscaled
  };

  GradScale now() const;
  void make_words(Device device);
  Known& known(const Optimizer& optimizer);
  void set_stage(Known& known, Stage stage, const Optimizer& optimizer);
  void set_all_ready();
  void keep_stages();
  Tensor found_inf(const Known& known) const;
  std::vector<Tensor> scaled_gradients(const Optimizer& optimizer) const;
  void unscale(const std::vector<Tensor>& gradients, const Known& known, const Optimizer& optimizer) const;

  GradScalerOptions options_;
  GradScale start_;                            // scale and tracker before the first loss
  Tensor scale_, growth_tracker_, found_inf_;  // undefined before the first loss
  std::vector<Known> known_;                   // index: the optimizer's element of found_inf_
  const void* recorded_by_ = nullptr;          // the current capture, if it has changed stages
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // captured steps check it
};

}  // namespace bytetape::optim
