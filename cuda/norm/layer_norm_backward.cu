#include "bytetape/cuda/norm/layer_norm_backward.cuh"

namespace bytetape::cuda {

void layer_norm_backward(const LayerNormBackwardArgs& args, const Plan& plan, Workspace ws) {
  normalise_rows_backward<true>(args, plan, ws);
}

}  // namespace bytetape::cuda
