#pragma once
#include "bytetape/autograd/op_observer.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Throws AutogradError, naming the op and module, at the first forward or backward op whose result holds a NaN.
/// Active on this thread while it lives. It reads every result, so it is slow (torch.autograd.detect_anomaly).
class DetectAnomaly final : public OpObserver {
 public:
  [[nodiscard]] DetectAnomaly();
  ~DetectAnomaly() override;
  void result(const OpCall& call, const Tensor& y) override;

 private:
  bool previous_;
};
/// Whether a DetectAnomaly is active on this thread.
bool detecting_anomaly();

/// Throws AutogradError, naming the running op and module, if x holds a NaN. `what` names x in the message.
void throw_if_nan(const Tensor& x, const char* what);

}  // namespace bytetape
