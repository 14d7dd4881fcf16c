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
/// Applies to the results of batch_norm with an activation and without a residual. Bits are the same. It saves their
/// memory and costs one pass over each. Backward of their users throws AutogradError if the batch_norm's saved tensors
/// were freed or overwritten before. checkpoint() recomputes whole parts of a model.
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
