#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// The options of torch.optim.Adam. Adam has the formula.
struct AdamOptions {
  double lr = 1e-3;                         ///< step size
  std::array<double, 2> betas{0.9, 0.999};  ///< decay factors of the running averages m and v
  double eps = 1e-8;                        ///< added to the denominator
  double weight_decay = 0;                  ///< L2 penalty, added to the gradient
};

/// The options of torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3;                         ///< step size
  std::array<double, 2> betas{0.9, 0.999};  ///< decay factors of the running averages m and v
  double eps = 1e-8;                        ///< added to the denominator
  double weight_decay = 1e-2;  ///< decoupled: a step first subtracts lr * weight_decay * p from the parameter p
};

/// Base class of Adam and AdamW. Keeps running averages m and v of each parameter's gradient and squared gradient.
class AdamBase : public Optimizer {
 protected:
  /// `decoupled` selects AdamW's weight decay.
  AdamBase(std::vector<ParamGroup> groups, const ParamGroup& defaults, std::string_view name, bool decoupled);

 private:
  void check_options(const ParamGroup& group) const final;
  void resize_states(std::size_t count) final { averages_.resize(count); }
  std::vector<State> states(std::size_t i) final {
    return {{"exp_avg", &averages_[i].exp_avg}, {"exp_avg_sq", &averages_[i].exp_avg_sq}};
  }
  void prepare(const std::vector<Tensor>& gradients) final;
  void set_step_params() final;
  std::span<const std::byte> step_params() const final { return std::as_bytes(std::span(step_params_)); }
  void launch() final;

  struct Averages {
    Tensor exp_avg, exp_avg_sq;  // undefined until the parameter's first step
  };
  bool decoupled_;
  std::vector<Averages> averages_;           // by parameter
  std::vector<AdamSlot> slots_;              // reused, so that later steps allocate no memory
  std::vector<AdamStepParams> step_params_;  // by slot
};

/// Adam (torch.optim.Adam; Kingma & Ba, "Adam: a method for stochastic optimization", 2015).
///
/// Step t of a parameter p: p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
///
///     optim::Adam adam(model.parameters(), {.lr = 3e-4});
class Adam final : public AdamBase {
 public:
  /// Throws ValueError, naming the argument, if lr, eps or weight_decay is negative or not finite, or a beta is not in
  /// [0, 1).
  /// Throws what the constructor of Optimizer throws.
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
  explicit Adam(std::vector<ParamGroup> groups, const AdamOptions& options = {});
};

/// Adam with decoupled weight decay (torch.optim.AdamW; Loshchilov & Hutter, "Decoupled weight decay regularization",
/// 2019).
class AdamW final : public AdamBase {
 public:
  /// Throws ValueError, naming the argument, if lr, eps or weight_decay is negative or not finite, or a beta is not in
  /// [0, 1).
  /// Throws what the constructor of Optimizer throws.
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options = {});
};

}  // namespace bytetape::optim
