#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "bytetape/core/kernels/grad_scale.h"
#include "bytetape/core/state_dict.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// As torch.amp.GradScaler's.
struct GradScalerOptions {
  double init_scale = 65536;            ///< the first scale
  double growth_factor = 2;             ///< times the scale, after growth_interval steps in a row that did not overflow
  double backoff_factor = 0.5;          ///< times the scale, after a step that did
  std::int32_t growth_interval = 2000;  ///< steps
  bool enabled = true;                  ///< false: scale() gives what it gets, step() is the optimizer's
};

/// Keeps small gradients of f16 from vanishing (torch.amp.GradScaler; Micikevicius et al., "Mixed precision training",
/// 2018): backward starts from a scaled loss, gradients come down by the scale before the optimizer's step, a step
/// whose gradients are not all finite is skipped, and the scale goes as high as it can.
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
///       scaler.unscale_(optimizer);  // where gradients are looked at, as here
///       optim::clip_grad_norm_(model.parameters(), 1.0);
///       scaler.step(optimizer);
///       scaler.update();
///     }
///
/// The scale, how long it has held and what overflowed are tensors where the losses are, made with the first of those,
/// under the role `optimizer state`. The host waits for none of them, and optimizers count the steps that were taken
/// without its knowing (Adam's bias correction). All of it can be part of a captured step (autograd/capture.h), with
/// update() or without.
class GradScaler {
 public:
  /// Throws ValueError, naming the argument, unless init_scale is a positive normal number of f32, growth_factor > 1
  /// and finite, backoff_factor is in (0, 1) and growth_interval >= 1.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  /// outputs * scale, on the tape, in at least f32. Throws DTypeError on integers, and DeviceError where an earlier one
  /// was on another device.
  Tensor scale(const Tensor& outputs);
  /// Multiplies the gradients of the optimizer's parameters by 1 / scale, in place, and remembers whether one was not
  /// finite. Once at most between two updates, unless optimizer.zero_grad() dropped them; step() does it where nobody
  /// else did. Throws ValueError where it was done, nothing was scaled before or no parameter has a gradient;
  /// DTypeError on gradients of f16, which have lost what a scale is to save; and what clip_grad_norm_ throws of them.
  void unscale_(Optimizer& optimizer);
  /// optimizer.step(), unless a gradient was not finite. Throws ValueError on a second one before update(), and what
  /// unscale_() and the optimizer throw; then it can be called again.
  void step(Optimizer& optimizer);
  /// Moves the scale on, by what the optimizers' gradients were since the last update. Throws ValueError where none
  /// were unscaled.
  void update();

  /// The scale of now; 1 where not enabled. Waits for the device.
  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }

  /// What training goes on from: "scale", "growth_factor", "backoff_factor", "growth_interval" and "growth_tracker".
  /// Waits for the device.
  StateDict state_dict() const;
  /// Goes on from there, enabled or not. Throws ValueError, before anything is changed, on what the constructor
  /// refuses, a negative growth_tracker, or a name that is missing or unexpected.
  void load_state_dict(const StateDict& state);

 private:
  enum class Stage { ready, unscaled, stepped };
  /// An optimizer, since the last update.
  struct Known {
    std::weak_ptr<const bool> alive;
    Stage stage = Stage::ready;
    std::uint64_t zeroed = 0;  // its zero_grad() calls when it was unscaled
  };

  GradScale now() const;
  void make_words(Device device);
  Known& known(const Optimizer& optimizer);
  void set_stage(Known& known, Stage stage, const Optimizer& optimizer);
  void set_all_ready();
  void keep_stages();
  View found_inf(const Known& known) const;
  std::vector<Tensor> scaled_gradients(const Optimizer& optimizer) const;
  void unscale(const std::vector<Tensor>& gradients, const Known& known) const;

  GradScalerOptions options_;
  GradScale start_;                            // of a device that has seen none
  Tensor scale_, growth_tracker_, found_inf_;  // undefined before the first loss
  std::vector<Known> known_;                   // by the number of their word of found_inf_
  const void* recorded_by_ = nullptr;          // the capture that runs, once it has changed stages
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // captured steps look for it
};

}  // namespace bytetape::optim
