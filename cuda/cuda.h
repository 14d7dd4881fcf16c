#pragma once
#include <string>

#include "bytetape/cuda/precision.h"

/// What only CUDA has. All else is said with Device::cuda().
namespace bytetape::cuda {

/// How many devices this process can use; 0 without a driver, or in a build without CUDA (torch.cuda.device_count).
int device_count();

/// While on, each product that is met for the first time on a thread tries what cuBLASLt proposes for it and keeps the
/// fastest. Off at start: a table that was measured decides then, and for what it lacks the library's first proposal,
/// so that bits are the same in every process.
void tune(bool on);
/// What tuning has found in this process, as lines for cuda/products.inc.
std::string tuned();

}  // namespace bytetape::cuda
