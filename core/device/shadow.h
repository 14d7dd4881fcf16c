#pragma once
#include "bytetape/core/tensor.h"

/// \file
/// 16-bit copies of parameters (Storage::Shadow). A copy is made once per version of the parameter, not once per op.
namespace bytetape {

/// Returns x's elements in `dtype`, with x's layout, outside the tape. The copy is made on first use, and after each
/// write of x. If another library may write x (Storage::expose), each call makes a copy. Its role on the ledger is
/// `autocast copy`, under x's module.
Tensor shadow_of(const Tensor& x, DType dtype);
/// Returns the current copy, which a kernel that writes x must write too. Undefined if there is none, or if it is
/// stale.
Tensor current_shadow(const Tensor& x);
/// Counts a write of x and of current_shadow(x).
void note_write_with_shadow(const Tensor& x);

namespace detail {
/// Makes the copy that a captured step uses that of s, and updates it. Call before a replay.
void restore_shadow(Storage& s, const Storage::Shadow& captured);
/// Counts a write of the copy along with s.
void note_written_shadow(Storage& s);
/// Deletes the copy of s, which is stale.
void discard_shadow(Storage& s);
}  // namespace detail

}  // namespace bytetape
