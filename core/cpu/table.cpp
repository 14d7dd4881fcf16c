#include "bytetape/core/cpu/table.h"

#include "bytetape/core/kernels/table.h"

namespace bytetape::cpu {

#ifdef BYTETAPE_HAS_ONEDNN
namespace dense = onednn;
#else
namespace dense = portable;
#endif

const ConvKernels& direct_conv_kernels() { return dense::conv_kernels(); }
const MatmulKernels& matmul_kernels() { return dense::matmul_kernels(); }

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

}  // namespace bytetape::cpu
