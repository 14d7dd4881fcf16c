#include "bytetape/autograd/anomaly.h"

#include <utility>

#include "bytetape/autograd/ambient.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/reduce.h"

namespace bytetape {

using detail::autograd_ambient;

bool detecting_anomaly() { return autograd_ambient.detect_anomaly; }
DetectAnomaly::DetectAnomaly() : previous_(std::exchange(autograd_ambient.detect_anomaly, true)) {}
DetectAnomaly::~DetectAnomaly() { autograd_ambient.detect_anomaly = previous_; }

// Composite ops are skipped, because the ops that they call are observed. In backward, results of all ops count as
// gradients, also intermediate ones.
void DetectAnomaly::result(const OpCall& call, const Tensor& y) {
  const bool backward = memory::ambient.scope.phase == memory::Phase::backward;
  if (call.kind != OpKind::composite) throw_if_nan(y, backward ? "a gradient made by backward" : "the result");
}

void throw_if_nan(const Tensor& x, const char* what) {
  if (!x.defined() || !is_floating(x.dtype()) || x.device().is_meta || x.numel() == 0) return;
  Tensor highest = empty(Dims::filled(x.rank(), 1), x.dtype(), x.device());
  run<&ReduceKernels::max>(x.device(), x.read(), highest.write());  // NaN wins a maximum
  const auto value = highest.item().to<double>();
  check<AutogradError>(value == value, what, ", ", describe(x),
                       ", holds a NaN: try a lower learning rate or clipped gradients, or look at what the op got");
}

}  // namespace bytetape
