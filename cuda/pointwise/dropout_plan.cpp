#include "bytetape/core/kernels/dropout.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

// Dropout needs no scratch in any layout.
const DropoutKernels& dropout_plans() {
  static const DropoutKernels all{
      .dropout = {[](const DropoutArgs&) { return Plan{}; }, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
