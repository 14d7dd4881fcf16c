#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/optim/newton_schulz.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// The options of torch.optim.Muon, and `flatten`. Muon has the formula.
struct MuonOptions {
  double lr = 1e-3;           ///< step size, before adjust_lr_fn
  double weight_decay = 0.1;  ///< decoupled: a step multiplies the parameter by 1 - lr * weight_decay
  double momentum = 0.95;     ///< weight of the old momentum buffer
  bool nesterov = true;       ///< use Nesterov momentum
  std::array<double, 3> ns_coefficients{3.4445, -4.7750, 2.0315};  ///< (a, b, c) of the Newton-Schulz iteration
  double eps = 1e-7;                                               ///< least norm that an update is divided by
  std::int64_t ns_steps = 5;                                       ///< number of Newton-Schulz iterations, below 100
  AdjustLr adjust_lr_fn = AdjustLr::original;                      ///< factor of lr for the shape of a matrix
  bool flatten = false;  ///< take parameters of more dims, such as filters, as matrices (size(0), the rest)
};

/// Momentum with orthogonalized updates, for the matrices of hidden layers (torch.optim.Muon; Jordan et al., "Muon: an
/// optimizer for hidden layers in neural networks", 2024).
///
/// A step with gradient g of a matrix p (m, n): b = momentum * b + (1 - momentum) * g, from b = 0; u = b, or (1 -
/// momentum) * g + momentum * b with Nesterov; p = (1 - lr * weight_decay) * p - lr * f(m, n) * O(u / |u|). O is
/// NewtonSchulz. The factor f is AdjustLr's. Other parameters, such as biases and embeddings, need another optimizer:
///
///     std::vector<Tensor> matrices, others;
///     for (const Tensor& p : model.parameters()) (p.rank() == 2 ? matrices : others).push_back(p);
///     optim::Muon muon(matrices, {.lr = 0.02});
///     optim::AdamW adamw(others);
///
/// O is computed in bf16 on a GPU, as in PyTorch. On the CPU it is computed in the parameter's dtype, or in f32 for
/// 16-bit parameters; PyTorch uses bf16 there too. Parameters of one shape are orthogonalized together. A step takes
/// temporary memory of two to four times the matrices in O's dtype (four for square ones), and of a copy in the
/// parameter's dtype if that is neither f32 nor O's.
class Muon final : public Optimizer {
 public:
  /// Throws ShapeError if a parameter is not a matrix, or has fewer than 2 dims with `flatten`.
  /// Throws NotImplemented if the first dim of a flattened parameter is not the outermost one in memory.
  /// Throws ValueError, naming the argument, if lr, weight_decay, momentum or eps is negative or not finite.
  /// Throws ValueError if a coefficient is not finite, or ns_steps is not in [0, 100).
  /// Throws what the constructor of Optimizer throws.
  explicit Muon(std::vector<Tensor> parameters, const MuonOptions& options = {});
  explicit Muon(std::vector<ParamGroup> groups, const MuonOptions& options = {});

 private:
  /// Parameters of one shape and one set of options, as indices into slots_.
  struct Batch {
    std::int64_t rows, columns;
    std::array<double, 3> coefficients;
    std::int64_t steps;
    Tensor like;  // one of the parameters
    std::vector<std::size_t> members{};
  };

  void check_options(const ParamGroup& group) const override;
  std::function<void()> replay_check() const override;
  void resize_states(std::size_t count) override { momentum_buffers_.resize(count); }
  std::vector<State> states(std::size_t i) override { return {{"momentum_buffer", &momentum_buffers_[i]}}; }
  void prepare(const std::vector<Tensor>& gradients) override;
  void set_step_params() override;
  std::span<const std::byte> step_params() const override { return std::as_bytes(std::span(step_params_)); }
  void launch() override;

  std::vector<Batch> batches() const;
  void make_slots(const std::vector<Tensor>& gradients);
  void make_directions();
  MuonDirectionArgs direction_args() const;

  bool flatten_;
  std::vector<Tensor> momentum_buffers_;     // by parameter; undefined until its first step
  std::vector<MuonStepParams> step_params_;  // by slot
  // The rest is made by prepare() for one step.
  std::vector<MuonSlot> slots_;
  std::vector<View> directions_;  // by slot
  std::vector<double> eps_;       // by slot
  std::vector<Batch> batches_;
  std::vector<NewtonSchulz> orthogonalized_;  // by batch
  std::vector<Tensor> converted_;             // by slot: direction in the parameter's dtype, if its kernel needs that
  std::optional<Prepared<&OptimizerKernels::muon_direction>> direction_kernel_;
};

}  // namespace bytetape::optim
