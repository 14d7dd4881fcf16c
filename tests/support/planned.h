#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/storage.h"

namespace bytetape::test {

/// Plans and launches a kernel of any table on the host's memory.
template <class Args>
void run_planned(const Planned<Args>& kernel, const typename Planned<Args>::Args& args) {
  const Plan plan = kernel.plan(args);
  const Storage ws(plan.workspace, {}, memory::Role::workspace);
  kernel.launch(args, plan, {ws.data(), ws.bytes()});
}

}  // namespace bytetape::test
