#include "bytetape/cuda/attention/attention_workspace.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

static Plan plan(const AttentionArgs& a) { return {a.factor.numel() == 0 ? 0 : AttentionForward(a, nullptr).bytes}; }
static Plan plan(const AttentionBackwardArgs& a) {
  return {a.factor.numel() == 0 ? 0 : AttentionBackward(a, nullptr).bytes};
}

const AttentionKernels& attention_plans() {
  static const AttentionKernels all{
      .attention = {plan, nullptr},
      .attention_backward = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
