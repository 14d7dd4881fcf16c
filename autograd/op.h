#pragma once
/// \file
/// Includes all that an op needs: its scope, the checks, the kernels and the tape.
#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/op_scope.h"
#include "bytetape/autograd/record.h"
#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"

namespace bytetape {

/// Throws ValueError if a or b is undefined.
/// Throws DeviceError if they are on different devices.
inline void check_same_device(const Tensor& a, const Tensor& b) {
  check_defined(a, "the first input");
  check_defined(b, "the second input");
  check<DeviceError>(a.device() == b.device(), "inputs on different devices: ", describe(a), " and ", describe(b));
}
/// Throws DTypeError if a and b have different dtypes, and as check_same_device(). Nothing is converted implicitly.
inline void check_same_type(const Tensor& a, const Tensor& b) {
  check_same_device(a, b);
  check<DTypeError>(a.dtype() == b.dtype(), "inputs of different dtypes: ", describe(a), " and ", describe(b),
                    "; convert one with to(x, dtype)");
}
/// Checks v, a scale or shift of x that may be undefined.
/// Throws DeviceError if v is on another device than x.
/// Throws DTypeError if v has neither x's dtype nor the dtype in which x is summed.
inline void check_coefficient(const Tensor& v, const char* name, const Tensor& x) {
  if (!v.defined()) return;
  check<DeviceError>(v.device() == x.device(), name, " is on another device than x: ", describe(v), " and ",
                     describe(x));
  check<DTypeError>(v.dtype() == x.dtype() || v.dtype() == accumulated(x.dtype()), name,
                    " must have the dtype of x, or f32 where that is a 16-bit one; got ", describe(v), " for x ",
                    describe(x));
}
/// Checks a residual that is added to x. It may be undefined.
/// Throws ShapeError, DTypeError or DeviceError if it differs from x in shape, dtype or device.
inline void check_residual_shape(const Tensor& residual, const Tensor& x) {
  check(residual.shape() == x.shape(), "expected a residual of the shape of ", describe(x), ", got ",
        describe(residual));
}
inline void check_residual(const Tensor& residual, const Tensor& x) {
  if (!residual.defined()) return;
  check_same_type(x, residual);
  check_residual_shape(residual, x);
}
/// Returns a view of x for a kernel to read. An undefined tensor gives an empty view.
inline ConstView read(const Tensor& x) { return x.defined() ? x.read() : ConstView(); }
/// Returns a view of x for a kernel to write. An undefined tensor gives an empty view.
inline View write(const Tensor& x) { return x.defined() ? x.write() : View(); }

/// The backward rule of ops that overwrite their input: its gradient is zero.
struct OverwriteBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = zeros_like(gy[0]); }
};
/// Runs fill(), which overwrites x completely, as an op on the tape. Returns x.
template <class F>
Tensor overwrite(const Tensor& x, const F& fill) {
  check_in_place(x);
  fill();
  record_in_place<OverwriteBackward>(x, x);
  return x;
}

/// Whether a backward rule may write its result into x: nothing is recorded, and nobody else holds x.
inline bool may_overwrite(const Tensor& x) { return !grad_enabled() && is_sole_owner(x); }

}  // namespace bytetape
