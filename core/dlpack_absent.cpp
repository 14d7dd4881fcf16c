// Replaces dlpack.cpp in builds without dlpack/dlpack.h.
#include "bytetape/core/dlpack.h"
#include "bytetape/core/error.h"

namespace bytetape {
namespace {
[[noreturn]] void fail_absent() {
  fail<Error>(
      "this library was built without DLPack: run scripts/download_dlpack (or set BYTETAPE_DLPACK_INCLUDE to the "
      "folder "
      "of dlpack/dlpack.h, version 1) and build it again");
}
}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor&, const DlpackOptions&) { fail_absent(); }
DLManagedTensor* to_dlpack_unversioned(const Tensor&, const DlpackOptions&) { fail_absent(); }
Tensor from_dlpack(DLManagedTensorVersioned*, const DlpackOptions&) { fail_absent(); }
Tensor from_dlpack(DLManagedTensor*, const DlpackOptions&) { fail_absent(); }

}  // namespace bytetape
