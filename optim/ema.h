#pragma once
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/state_dict.h"
#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// As torch.optim.swa_utils.get_ema_multi_avg_fn's.
struct EMAOptions {
  double decay = 0.999;  ///< how much of the average stays
};

/// An exponential moving average of parameters (torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay)):
/// average = decay * average + (1 - decay) * parameter, of which the first update makes a copy. Averages are of the
/// parameters' dtypes, under the role `optimizer state`; an update is one launch, and can be part of a captured step.
/// Keeps handles to the parameters, which share their data with the module's.
///
///     optim::EMA ema(model.parameters(), {.decay = 0.99});
///     for (const auto& [x, target] : loader) {
///       train(x, target);
///       ema.update();
///     }
///     ema.swap();  // the model is the average now
///     evaluate(model);
///     ema.swap();  // and itself again
class EMA {
 public:
  /// Throws ValueError unless decay is in [0, 1], and what Optimizer() throws of the parameters.
  explicit EMA(std::vector<Tensor> parameters, const EMAOptions& options = {});

  /// Takes in what the parameters are. On a device it does nothing while a fault is pending (core/fault.h); the
  /// first one waits for the device. Throws ValueError where an assignment has put another tensor in a parameter's
  /// place in its module.
  void update();
  /// By parameter.
  const std::vector<Tensor>& averages() const { return averages_; }
  /// Writes the averages into as many tensors of the same shapes, on any device (another model's parameters). Throws
  /// ValueError and ShapeError where they do not fit, before anything is written.
  void copy_to(const std::vector<Tensor>& parameters) const;
  /// Exchanges the values of the parameters and of the averages.
  void swap();

  /// "averages.0", and whether there was a first update.
  StateDict state_dict() const;
  /// Copies it in. Throws ValueError, naming what is missing or unexpected, and ShapeError, before anything is written.
  void load_state_dict(const StateDict& state);

 private:
  void check_all() const;

  std::vector<Tensor> parameters_, averages_;
  std::vector<EmaPace> paces_;  // by parameter
  bool has_begun_ = false;      // the averages are some
};

}  // namespace bytetape::optim
