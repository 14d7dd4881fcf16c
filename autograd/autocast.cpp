#include "bytetape/autograd/autocast.h"

#include <utility>

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/check.h"
#include "bytetape/core/device/shadow.h"

namespace bytetape {
namespace {

using detail::autograd_ambient;

bool is_of_16_bits(DType t) { return t == DType::bf16 || t == DType::f16; }

/// Whether x is probably a parameter, whose 16-bit copy can be cached: an f32 leaf that requires grad, or that a module
/// holds.
bool is_parameter(const Tensor& x) {
  return x.dtype() == DType::f32 && x.is_leaf() && (x.requires_grad() || x.impl()->slots > 0);
}

bool needs_autocast_copy(const Tensor& x) {
  return autocast_enabled() && x.defined() && x.dtype() != autograd_ambient.autocast && is_floating(x.dtype()) &&
         x.dtype() != DType::f64;
}

}  // namespace

Autocast::Autocast(DType dtype) : previous_(autograd_ambient.autocast) {
  check<DTypeError>(is_of_16_bits(dtype) || dtype == DType::f32,
                    "Autocast takes bf16 or f16, or f32 to be switched off, got ", dtype);
  autograd_ambient.autocast = dtype;
}
Autocast::~Autocast() { autograd_ambient.autocast = previous_; }

DType autocast_dtype() { return autograd_ambient.autocast; }

Tensor autocast_copy(const Tensor& x) { return needs_autocast_copy(x) ? to(x, autograd_ambient.autocast) : x; }

Tensor widened(const Tensor& x) {
  return autocast_enabled() && x.defined() && is_of_16_bits(x.dtype()) ? to(x, DType::f32) : x;
}

bool promotes(const Tensor& a, const Tensor& b) {
  return autocast_enabled() && a.defined() && b.defined() && a.dtype() != b.dtype() && is_floating(a.dtype()) &&
         is_floating(b.dtype());
}

DType promoted(DType a, DType b) {
  if (a == b) return a;
  return size_of(a) == size_of(b) ? DType::f32 : size_of(a) > size_of(b) ? a : b;
}

std::pair<Tensor, Tensor> promoted_pair(const Tensor& a, const Tensor& b) {
  if (!promotes(a, b)) return {a, b};
  const DType dtype = promoted(a.dtype(), b.dtype());
  return {to(a, dtype), to(b, dtype)};
}

AutocastWeight::AutocastWeight(const Tensor& x) : value(x), on_tape(x) {
  if (!needs_autocast_copy(x)) return;
  if (is_parameter(x))
    value = shadow_of(x, autograd_ambient.autocast);
  else
    on_tape = value = to(x, autograd_ambient.autocast);
}

// If backward is recorded, the result must lead to the parameter on the tape. A cached copy is not on the tape.
Tensor autocast_copy_again(const Tensor& on_tape, DType dtype) {
  if (on_tape.dtype() == dtype) return on_tape;
  return grad_enabled() ? to(on_tape, dtype) : shadow_of(on_tape, dtype);
}

}  // namespace bytetape
