#pragma once
#include "bytetape/core/kernels/families.h"

namespace bytetape {
class KernelTable;
}  // namespace bytetape

namespace bytetape::cpu {

/// Returns the kernel table of the CPU.
const KernelTable& kernels();

// The kernels of each family. They are defined at the end of the source with the family's name.
#define BYTETAPE_FAMILY(Name, name, kind) const Name##Kernels& name##_kernels();
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY

/// Returns the kernels of convolutions that Winograd's algorithm does not suit.
const ConvKernels& direct_conv_kernels();

// Kernels for every floating dtype.
namespace portable {
const ConvKernels& conv_kernels();
const MatmulKernels& matmul_kernels();
}  // namespace portable

// Kernels for f32 on oneDNN. Other dtypes use the portable kernels.
namespace onednn {
const ConvKernels& conv_kernels();
const MatmulKernels& matmul_kernels();
}  // namespace onednn

}  // namespace bytetape::cpu
