#pragma once
/// \file
/// What every op needs: the scope that names it, the checks, the kernels, the tape.
#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/record.h"
#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {

using memory::Op;

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
/// What scales or shifts x, or is undefined: on x's device (DeviceError), in x's dtype or the wider one that its sums
/// are made in (DTypeError).
inline void check_coefficient(const Tensor& v, const char* name, const Tensor& x) {
  if (!v.defined()) return;
  check<DeviceError>(v.device() == x.device(), name, " is on another device than x: ", describe(v), " and ",
                     describe(x));
  check<DTypeError>(v.dtype() == x.dtype() || v.dtype() == accumulated(x.dtype()), name,
                    " must have the dtype of x, or f32 where that is a 16-bit one; got ", describe(v), " for x ",
                    describe(x));
}
/// What is added to x, or is undefined: of x's shape (ShapeError), dtype (DTypeError) and device (DeviceError).
inline void check_residual(const Tensor& residual, const Tensor& x) {
  if (!residual.defined()) return;
  check_same_type(x, residual);
  check(residual.shape() == x.shape(), "expected a residual of the shape of ", describe(x), ", got ",
        describe(residual));
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

}  // namespace bytetape
