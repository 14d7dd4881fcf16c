#pragma once
#include "bytetape/core/kernels/families.h"

namespace bytetape {
class KernelTable;
}  // namespace bytetape

namespace bytetape::cuda {

// How the kernels of each planned family will run, in name_plan.cpp: host code without the toolkit, so that a
// prediction has the same bytes on every machine. The kernels' launches are null.
#define BYTETAPE_PLANS_planned(Name, name) const Name##Kernels& name##_plans();
#define BYTETAPE_PLANS_immediate(Name, name)
#define BYTETAPE_FAMILY(Name, name, kind) BYTETAPE_PLANS_##kind(Name, name)
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
#undef BYTETAPE_PLANS_immediate
#undef BYTETAPE_PLANS_planned

/// A table of these.
const KernelTable& plans();

}  // namespace bytetape::cuda
