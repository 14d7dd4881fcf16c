#pragma once
#include "bytetape/core/kernels/families.h"

namespace bytetape::cuda {

// The kernels of each family. They are defined in the source with the family's name.
#define BYTETAPE_FAMILY(Name, name, kind) const Name##Kernels& name##_kernels();
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY

}  // namespace bytetape::cuda
