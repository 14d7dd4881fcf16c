#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

/// What the CPU can do.
extern const Kernels kernels;

}  // namespace bytetape::cpu
