#pragma once
#include "bytetape/core/kernels/families.h"

namespace bytetape {
class KernelTable;
}  // namespace bytetape

namespace bytetape::cpu {

/// What the CPU can do.
const KernelTable& kernels();

// Its families, each at the end of the source of its name.
#define BYTETAPE_FAMILY(Name, name, kind) const Name##Kernels& name##_kernels();
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY

// Every floating dtype, on Eigen.
namespace portable {
const ConvKernels& conv_kernels();
const MatmulKernels& matmul_kernels();
}  // namespace portable

// f32 on oneDNN; other dtypes go to the portable kernels.
namespace onednn {
const ConvKernels& conv_kernels();
const MatmulKernels& matmul_kernels();
}  // namespace onednn

}  // namespace bytetape::cpu
