#pragma once

namespace bytetape {

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
/// Applies to the results of batch_norm with an activation and without a residual. Gradients have the same bits.
/// Recomputation saves the memory of these results, and costs one pass over each. checkpoint() recomputes whole parts
/// of a model. Backward of an op that uses such a result throws AutogradError if the batch_norm's saved tensors were
/// freed or overwritten before.
class Recompute {
 public:
  [[nodiscard]] Recompute();
  ~Recompute();
  Recompute(const Recompute&) = delete;
  Recompute& operator=(const Recompute&) = delete;

 private:
  bool previous_;
};
/// Whether a Recompute is active on this thread.
bool recomputing();

}  // namespace bytetape
