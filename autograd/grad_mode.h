#pragma once
#include <cstdint>

namespace bytetape {
namespace detail {

/// The results that are recomputed: none; those with the same bits; all cheap ones.
enum class RecomputeMode : std::uint8_t { none, exact, all };

}  // namespace detail

/// Whether ops of this thread are recorded on the tape. Default: true.
bool grad_enabled();

/// Sets grad_enabled() while it lives.
class GradMode {
 public:
  [[nodiscard]] explicit GradMode(bool on);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Disables recording while it lives, for evaluation and parameter updates (torch.no_grad).
class NoGrad : GradMode {
 public:
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// Recomputes cheap activations in backward instead of saving them, on this thread while it lives.
/// Applies to the results of
/// - layer_norm, add_layer_norm (y) and rms_norm;
/// - gelu, silu, and linear with a tanh GELU;
/// - batch_norm with an activation and without a residual;
/// - view and reshape of these, without a copy.
///
/// Recomputation saves the memory of these results, and costs one pass for each op that uses one in backward. A result
/// is saved if its op's input would itself be recomputed. Gradients have the same bits, but for a tanh GELU that is
/// part of a GPU's product in TF32 or 16 bits: it has another tanh, or is applied before its input is rounded. With
/// `only_exact`, such a result is saved, unless an outer Recompute recomputes it. A write through data() to a result
/// that is recomputed does not reach backward. checkpoint() recomputes whole parts of a model.
///
/// Backward of an op that uses such a result throws AutogradError if the saved tensors of the op that made it were
/// freed or overwritten before.
class Recompute {
 public:
  [[nodiscard]] explicit Recompute(bool only_exact = false);
  ~Recompute();
  Recompute(const Recompute&) = delete;
  Recompute& operator=(const Recompute&) = delete;

 private:
  detail::RecomputeMode previous_;
};
/// Whether a Recompute is active on this thread.
bool recomputing();

}  // namespace bytetape
