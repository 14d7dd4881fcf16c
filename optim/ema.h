#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/named_tensors.h"
#include "bytetape/core/state_dict.h"
#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// The options of torch.optim.swa_utils.get_ema_multi_avg_fn.
struct EMAOptions {
  double decay = 0.999;      ///< weight of the old average in an update
  bool use_buffers = false;  ///< also average floating buffers (AveragedModel's use_buffers)
};

/// A model with named tensors, such as an nn::Module.
template <class M>
concept HasNamedTensors = requires(const M& model) {
  { model.parameters() } -> std::convertible_to<std::vector<Tensor>>;
  { model.named_buffers() } -> std::convertible_to<NamedTensors>;
};

/// Exponential moving average of parameters (torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay)).
///
/// average = decay * average + (1 - decay) * parameter. The first update copies the parameters. Averages have the
/// dtypes of the parameters and the role `optimizer state`. An update is one kernel launch, and can be part of a
/// captured step. EMA keeps handles to the parameters, which share their data with the module's.
///
///     optim::EMA ema(model.parameters(), {.decay = 0.99});
///     for (const auto& [x, target] : loader) {
///       train(x, target);
///       ema.update();
///     }
///     ema.swap();  // the model has the averages
///     evaluate(model);
///     ema.swap();  // the model has its own parameters again
///
/// By default, buffers are not averaged. After swap(), a BatchNorm then has the statistics of the original parameters,
/// which may be far off. There are two solutions. `optim::EMA ema(model, {.decay = 0.99, .use_buffers = true})`
/// averages and swaps the buffers too. Or copy the averages into another model, and compute its statistics:
///
///     ema.copy_to(averaged);
///     nn::update_bn(loader, averaged);
class EMA {
 public:
  /// Throws ValueError if decay is not in [0, 1], or if use_buffers is true, which needs the constructor with a model.
  /// Throws what the constructor of Optimizer throws for the parameters.
  explicit EMA(std::vector<Tensor> parameters, const EMAOptions& options = {});
  /// Averages a model's parameters and, if use_buffers is true, its floating buffers. averages() has the buffers last.
  template <HasNamedTensors M>
  explicit EMA(const M& model, const EMAOptions& options = {})
      : EMA(tensors_of(model, options.use_buffers), EMAOptions{.decay = options.decay}) {
    has_buffers_ = options.use_buffers;
  }

  /// Updates the averages with the current parameters.
  /// A device skips the update while a fault is pending (core/device/fault.h). The first update waits for the device.
  /// Throws ValueError if an assignment has replaced a parameter in its module.
  /// Throws CaptureError if the first update is in a step that is being captured.
  void update();
  /// Returns the averages, in the order of the parameters.
  const std::vector<Tensor>& averages() const { return averages_; }
  /// Copies the averages into `parameters`, such as another model's. Shapes must match; devices may differ.
  /// Throws ValueError if the number of tensors differs.
  /// Throws ShapeError if a shape differs. Nothing has been written then.
  void copy_to(const std::vector<Tensor>& parameters) const;
  /// Copies the averages into another model's parameters, and into its buffers if buffers are averaged.
  template <HasNamedTensors M>
  void copy_to(const M& model) const {
    copy_to(tensors_of(model, has_buffers_));
  }
  /// Swaps the values of the parameters and of the averages.
  void swap();

  /// Returns the averages, named "averages.0", and whether the first update has been made.
  StateDict state_dict() const;
  /// Copies `state` into the averages.
  /// Throws ValueError, naming what is missing or unexpected, if the names do not match.
  /// Throws ShapeError if a shape does not match. Nothing has been written then.
  void load_state_dict(const StateDict& state);

 private:
  void check_all() const;
  template <class M>
  static std::vector<Tensor> tensors_of(const M& model, bool with_buffers) {
    std::vector<Tensor> all = model.parameters();
    if (!with_buffers) return all;
    const std::size_t parameters = all.size();
    const auto is_parameter = [&](const Tensor& x) {  // a buffer may be tied to a parameter
      return std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(parameters),
                         [&](const Tensor& p) { return p.is_same(x); });
    };
    for (const auto& [name, x] : model.named_buffers())
      if (is_floating(x.dtype()) && !is_parameter(x)) all.push_back(x);
    return all;
  }

  std::vector<Tensor> parameters_, averages_;
  std::vector<EmaStepParams> step_params_;  // by parameter
  bool has_begun_ = false;                  // the first update has been made
  bool has_buffers_ = false;
};

}  // namespace bytetape::optim
