#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// As torch.optim.Adam's; the formula is at Adam.
struct AdamOptions {
  double lr = 1e-3;                         ///< step size
  std::array<double, 2> betas{0.9, 0.999};  ///< how much of m and v, the two running averages, stays
  double eps = 1e-8;                        ///< added to the denominator
  double weight_decay = 0;                  ///< L2 penalty: goes through the running averages
};

/// As torch.optim.AdamW's.
struct AdamWOptions {
  double lr = 1e-3;                         ///< step size
  std::array<double, 2> betas{0.9, 0.999};  ///< how much of m and v, the two running averages, stays
  double eps = 1e-8;                        ///< added to the denominator
  double weight_decay = 1e-2;               ///< decoupled: a step first takes lr * weight_decay * p off the parameter p
};

/// What Adam and AdamW share: running averages m and v of each parameter's gradient and of its square.
class AdamBase : public Optimizer {
 protected:
  /// `decoupled` is AdamW's way of the decay.
  AdamBase(std::vector<ParamGroup> groups, const ParamGroup& defaults, std::string_view name, bool decoupled);

 private:
  void check_options(const ParamGroup& group) const final;
  std::vector<State> states(std::size_t i) final {
    return {{"exp_avg", &averages_[i].exp_avg}, {"exp_avg_sq", &averages_[i].exp_avg_sq}};
  }
  void prepare(const std::vector<Tensor>& gradients) final;
  void set_step_params() final;
  std::span<const std::byte> step_params() const final { return std::as_bytes(std::span(step_params_)); }
  void launch() final;

  struct Averages {
    Tensor exp_avg, exp_avg_sq;  // undefined before the parameter's first step
  };
  bool decoupled_;
  std::vector<Averages> averages_;           // by parameter
  std::vector<AdamSlot> slots_;              // kept, so that a later step takes no new memory
  std::vector<AdamStepParams> step_params_;  // by slot
};

/// Adam (Kingma & Ba, "Adam: a method for stochastic optimization", 2015, as torch.optim.Adam):
/// p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) in a parameter's step t.
///
///     optim::Adam adam(model.parameters(), {.lr = 3e-4});
class Adam final : public AdamBase {
 public:
  /// Throws ValueError, naming the argument, unless lr, eps and weight_decay are at least 0 and both betas in [0, 1);
  /// and what Optimizer() throws.
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
  explicit Adam(std::vector<ParamGroup> groups, const AdamOptions& options = {});
};

/// Adam with decoupled weight decay (Loshchilov & Hutter, "Decoupled weight decay regularization", 2019, as
/// torch.optim.AdamW).
class AdamW final : public AdamBase {
 public:
  /// Throws ValueError, naming the argument, unless lr, eps and weight_decay are at least 0 and both betas in [0, 1);
  /// and what Optimizer() throws.
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options = {});
};

}  // namespace bytetape::optim
