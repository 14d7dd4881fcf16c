#pragma once
#include "bytetape/core/kernels/families.h"

namespace bytetape {
class KernelTable;
}  // namespace bytetape

namespace bytetape::cuda {

// The plans of each planned kernel family, defined in name_plan.cpp. They are host code that needs no toolkit, so that
// predictions are the same on every machine. The launches are null.
#define BYTETAPE_PLANS_planned(Name, name) const Name##Kernels& name##_plans();
#define BYTETAPE_PLANS_immediate(Name, name)
#define BYTETAPE_FAMILY(Name, name, kind) BYTETAPE_PLANS_##kind(Name, name)
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
#undef BYTETAPE_PLANS_immediate
#undef BYTETAPE_PLANS_planned

/// The table of these plans.
const KernelTable& plans();

}  // namespace bytetape::cuda
