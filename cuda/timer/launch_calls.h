#pragma once
#include <vector>

#include "bytetape/cuda/timer/cupti.h"

namespace bytetape::cuda {

/// A function of the runtime or the driver, as CUPTI numbers them.
struct LaunchCall {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
};

/// Returns the functions that launch kernels, copies, fills or graphs, by their names.
std::vector<LaunchCall> launch_calls();

}  // namespace bytetape::cuda
