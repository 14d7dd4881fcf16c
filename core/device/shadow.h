#pragma once
#include "bytetape/core/tensor.h"

/// \file
/// Copies of parameters in 16 bits, which their storages keep (Storage::Shadow): made once a version, not once an op.
namespace bytetape {

/// x's elements in `dtype`, where they lie in x; not on the tape. Its bytes are `autocast copy` on the ledger,
/// under the module of x's. Made, or made again, where x was written since.
Tensor shadow_of(const Tensor& x, DType dtype);
/// The one that there is, for a kernel that writes x to write too; undefined where there is none, or x was written
/// since.
Tensor current_shadow(const Tensor& x);
/// Counts a write of x, and of what current_shadow(x) gave.
void note_write_with_shadow(const Tensor& x);

namespace detail {
/// Makes s's shadow the one that a captured step uses, and brings it up to date: before a replay.
void restore_shadow(Storage& s, const Storage::Shadow& captured);
/// Counts the shadow as written along with s.
void note_written_shadow(Storage& s);
}  // namespace detail

}  // namespace bytetape
