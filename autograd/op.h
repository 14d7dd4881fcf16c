#pragma once
/// \file
/// What every op needs: the scope that names it, the checks, the kernels, the tape.
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/record.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"

namespace bytetape {

using memory::Op;

/// Throws ValueError where x is undefined; `name` says which tensor x is.
inline void check_defined(const Tensor& x, const char* name) {
  check<ValueError>(x.defined(), name, " is an undefined tensor");
}
/// Both defined (ValueError), on one device (DeviceError).
inline void check_same_device(const Tensor& a, const Tensor& b) {
  check_defined(a, "the first input");
  check_defined(b, "the second input");
  check<DeviceError>(a.device() == b.device(), "inputs on different devices: ", describe(a), " and ", describe(b));
}
/// Both defined, on one device and of one dtype (DTypeError): nothing is converted unasked; use to(x, dtype).
inline void check_same_type(const Tensor& a, const Tensor& b) {
  check_same_device(a, b);
  check<DTypeError>(a.dtype() == b.dtype(), "inputs of different dtypes: ", describe(a), " and ", describe(b),
                    "; convert one with to(x, dtype)");
}
/// An optional tensor as a kernel sees it: an undefined one is an empty view.
inline ConstView read(const Tensor& x) { return x.defined() ? x.read() : ConstView(); }
/// The same to write.
inline View write(const Tensor& x) { return x.defined() ? x.write() : View(); }

/// What is overwritten gets no gradient.
struct OverwriteBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = zeros_like(gy[0]); }
};
/// An op that calls fill() to write x whole, whatever was there; returns x.
template <class F>
Tensor overwrite(const Tensor& x, const F& fill) {
  check_in_place(x);
  fill();
  record_in_place<OverwriteBackward>(x, x);
  return x;
}

/// True where a backward rule may write its result over x: nobody else holds it, and nothing is recorded.
inline bool may_overwrite(const Tensor& x) { return !grad_enabled() && is_sole_owner(x); }

/// Defined (ValueError), of a floating dtype (DTypeError).
inline void check_floating(const Tensor& x) {
  check_defined(x, "the input");
  check<DTypeError>(is_floating(x.dtype()), "expected a floating dtype, got ", describe(x));
}

}  // namespace bytetape
