#pragma once
#include "bytetape/cuda/precision.h"

/// What only CUDA has. All else is said with Device::cuda().
namespace bytetape::cuda {

/// How many devices this process can use; 0 without a driver, or in a build without CUDA (torch.cuda.device_count).
int device_count();

}  // namespace bytetape::cuda
