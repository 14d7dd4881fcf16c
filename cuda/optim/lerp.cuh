#pragma once

namespace bytetape::cuda {

/// a + weight * (b - a). Starts from the nearer end, to round less (torch.lerp).
template <class C>
__device__ C lerp(C a, C b, C weight) {
  return weight < C(0.5) ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

}  // namespace bytetape::cuda
