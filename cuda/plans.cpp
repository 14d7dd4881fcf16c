#include "bytetape/cuda/plans.h"

#include "bytetape/core/kernels/table.h"

namespace bytetape::cuda {

const KernelTable& plans() {
  static const KernelTable all = [] {
    KernelTable table;
#define BYTETAPE_PLANS_planned(name) table.set(name##_plans());
#define BYTETAPE_PLANS_immediate(name)
#define BYTETAPE_FAMILY(Name, name, kind) BYTETAPE_PLANS_##kind(name)
    BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
#undef BYTETAPE_PLANS_immediate
#undef BYTETAPE_PLANS_planned
    return table;
  }();
  return all;
}

}  // namespace bytetape::cuda
