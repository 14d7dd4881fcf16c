#pragma once

namespace bytetape {

/// Whether ops on this thread record onto the tape. On at start.
bool grad_enabled();

/// Sets grad_enabled() for a C++ scope.
class GradMode {
 public:
  [[nodiscard]] explicit GradMode(bool on);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Nothing is recorded while it lives: evaluation, updates of parameters.
class NoGrad : GradMode {
 public:
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// While it lives, on its thread, results that are cheap to make again from what their op keeps anyway are not kept for
/// backward, which makes them once more: those of batch_norm with an activation and without a residual. The same bits
/// in less memory, for a pass over each. What their op keeps must last as long: a backward that frees it, or an input
/// of it that is overwritten, is an error in a later backward of what used them. checkpoint() repeats whole parts
/// of a model.
class Recompute {
 public:
  [[nodiscard]] Recompute();
  ~Recompute();
  Recompute(const Recompute&) = delete;
  Recompute& operator=(const Recompute&) = delete;

 private:
  bool previous_;
};
/// True while a Recompute lives on this thread.
bool recomputing();

/// While it lives, on its thread, the first op (forward or backward) whose result holds a NaN throws AutogradError
/// naming the op and the module. Reads every result: slow, for debugging.
class DetectAnomaly {
 public:
  [[nodiscard]] DetectAnomaly();
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  bool previous_;
};
/// True while a DetectAnomaly lives on this thread.
bool detecting_anomaly();

}  // namespace bytetape
