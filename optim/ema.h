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

/// As torch.optim.swa_utils.get_ema_multi_avg_fn's.
struct EMAOptions {
  double decay = 0.999;      ///< how much of the average stays
  bool use_buffers = false;  ///< average a model's floating buffers too (AveragedModel's use_buffers)
};

/// What EMA takes a model's tensors from, such as an nn::Module.
template <class M>
concept HasNamedTensors = requires(const M& model) {
  { model.parameters() } -> std::convertible_to<std::vector<Tensor>>;
  { model.named_buffers() } -> std::convertible_to<NamedTensors>;
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
///     ema.swap();  // the parameters are the averages now
///     evaluate(model);
///     ema.swap();  // and themselves again
///
/// Buffers are not averaged unless asked for: in between, a BatchNorm has the statistics of the parameters before, and
/// may be far off. Either average the buffers too, `optim::EMA ema(model, {.decay = 0.99, .use_buffers = true})`, which
/// swap() then exchanges as well; or copy the averages into another model, and give that its own statistics:
///
///     ema.copy_to(averaged);
///     nn::update_bn(loader, averaged);
class EMA {
 public:
  /// Throws ValueError unless decay is in [0, 1], or where use_buffers has no model to take them from, and what
  /// Optimizer() throws of the parameters.
  explicit EMA(std::vector<Tensor> parameters, const EMAOptions& options = {});
  /// Of a model's parameters, and with use_buffers of its floating buffers, which follow them in averages().
  template <HasNamedTensors M>
  explicit EMA(const M& model, const EMAOptions& options = {})
      : EMA(tensors_of(model, options.use_buffers), EMAOptions{.decay = options.decay}) {
    has_buffers_ = options.use_buffers;
  }

  /// Takes in what the parameters are. On a device it does nothing while a fault is pending (core/device/fault.h); the
  /// first one waits for the device. Throws ValueError where an assignment has put another tensor in a parameter's
  /// place in its module.
  void update();
  /// By parameter.
  const std::vector<Tensor>& averages() const { return averages_; }
  /// Writes the averages into as many tensors of the same shapes, on any device (another model's parameters). Throws
  /// ValueError and ShapeError where they do not fit, before anything is written.
  void copy_to(const std::vector<Tensor>& parameters) const;
  /// Writes them into another model's parameters, and buffers if these are averaged.
  template <HasNamedTensors M>
  void copy_to(const M& model) const {
    copy_to(tensors_of(model, has_buffers_));
  }
  /// Exchanges the values of the parameters and of the averages.
  void swap();

  /// "averages.0", and whether there was a first update.
  StateDict state_dict() const;
  /// Copies it in. Throws ValueError, naming what is missing or unexpected, and ShapeError, before anything is written.
  void load_state_dict(const StateDict& state);

 private:
  void check_all() const;
  template <class M>
  static std::vector<Tensor> tensors_of(const M& model, bool with_buffers) {
    std::vector<Tensor> all = model.parameters();
    if (!with_buffers) return all;
    const std::size_t parameters = all.size();
    const auto is_parameter = [&](const Tensor& x) {  // a buffer may be tied to one
      return std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(parameters),
                         [&](const Tensor& p) { return p.is_same(x); });
    };
    for (const auto& [name, x] : model.named_buffers())
      if (is_floating(x.dtype()) && !is_parameter(x)) all.push_back(x);
    return all;
  }

  std::vector<Tensor> parameters_, averages_;
  std::vector<EmaPace> paces_;  // by parameter
  bool has_begun_ = false;      // the averages are some
  bool has_buffers_ = false;
};

}  // namespace bytetape::optim
