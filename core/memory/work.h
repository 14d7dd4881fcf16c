#pragma once
#include <atomic>
#include <cstdint>

#include "bytetape/core/device/device.h"
#include "bytetape/core/dtype.h"

namespace bytetape::memory {

/// The work of a kernel, from the shapes of its arguments (core/kernels/work.h).
struct Work {
  std::uint64_t flop = 0;    ///< floating-point operations of products; 0 for other kernels
  std::uint64_t bytes = 0;   ///< bytes that the kernel must at least move
  DType dtype = DType::f32;  ///< of the factors of its products
};

/// The number of recordings, captures and predictions that count work. Kernels are counted while it is not 0.
inline constinit std::atomic<int> work_counters{0};
/// Counts work that this thread launches under its scope: work of the device whose step it captures for that step, and
/// all other work for the recording and for the prediction.
void count_work(Device device, const Work& work);

}  // namespace bytetape::memory
