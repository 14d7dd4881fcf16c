#include "bytetape/autograd/anomaly.h"

#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/reduce.h"

namespace bytetape {

void throw_if_nan(const Tensor& x, const char* what) {
  if (!x.defined() || !is_floating(x.dtype()) || x.device().is_meta || x.numel() == 0) return;
  Tensor highest = empty(Dims::filled(x.rank(), 1), x.dtype(), x.device());
  run<&ReduceKernels::max>(x.device(), x.read(), highest.write());  // NaN wins a maximum
  const auto value = highest.item().to<double>();
  check<AutogradError>(value == value, what, ", ", describe(x),
                       ", holds a NaN: try a lower learning rate or clipped gradients, or look at what the op got");
}

}  // namespace bytetape
