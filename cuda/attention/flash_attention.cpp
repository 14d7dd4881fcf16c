#include "bytetape/cuda/attention/flash_attention.h"

#include <initializer_list>

#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/precision.h"

namespace bytetape::cuda {
namespace {

constexpr std::int64_t lanes = 4;  // elements in 16 bytes

/// Whether kernels can access x (b, h, tokens, d) in vectors. An undefined view is not accessed.
bool is_taken(const ConstView& x) { return !x.defined() || has_vectors(x, 3, lanes); }

bool is_flash(const AttentionInputs& in, std::initializer_list<const ConstView*> others) {
  constexpr std::int64_t most = 128;  // columns
  const AttentionSizes s(in);
  if (in.q.dtype != DType::f32 || !allow_tf32() || !in.may_fuse || in.mask.defined() || in.p > 0) return false;
  if (s.d != s.e || s.d == 0 || s.d > most || s.batch == 0 || s.heads == 0 || s.n == 0 || s.m == 0) return false;
  for (const ConstView* x : others)
    if (!is_taken(*x)) return false;
  return is_taken(in.q) && is_taken(in.k) && is_taken(in.v);
}

}  // namespace

bool is_flash(const AttentionArgs& a) { return is_flash(a.in, {&a.y}); }
bool is_flash(const AttentionBackwardArgs& a) { return is_flash(a.in, {&a.y, &a.gy, &a.gq, &a.gk, &a.gv}); }

std::size_t flash_bytes(const AttentionArgs&) { return 0; }
std::size_t flash_bytes(const AttentionBackwardArgs& a) {
  return static_cast<std::size_t>(a.shift.numel()) * 2 * sizeof(float);
}

}  // namespace bytetape::cuda
