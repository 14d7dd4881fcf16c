#include "bytetape/cuda/table.h"

#include "bytetape/core/kernels/table.h"
#include "bytetape/cuda/runtime/runtime.h"

namespace bytetape::cuda {

const KernelTable& kernels() {
  static const KernelTable all = [] {
    KernelTable table;
#define BYTETAPE_FAMILY(Name, name, kind) table.set(name##_kernels());
    BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
    return table;
  }();
  return all;
}

}  // namespace bytetape::cuda
