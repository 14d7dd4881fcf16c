#pragma once
// Single instructions for values that come from factors of 16 bits or TF32. Their relative error of about 2^-22 is
// small beside the rounding of these.
#include <type_traits>

#include "bytetape/core/dtype.h"

namespace bytetape::cuda {

/// Whether kernels that store T may use them.
template <class T>
inline constexpr bool approximates = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// 2^x. Results below 2^-126 are 0.
__device__ inline float approximate_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x. It is 0 for x of 2^126 and more.
__device__ inline float approximate_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace bytetape::cuda
