// Forward of batch normalisation, and its kernel table.
#include "bytetape/cuda/norm/batch_norm.h"

#include "bytetape/cuda/norm/batch_norm_forward.cuh"
#include "bytetape/cuda/norm/batch_norm_map.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

void batch_norm_apply(const BatchNormApplyArgs& a) {
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (a.residual.defined())
      map<T>(Forward<T, 2>(a), a.y, a.x, a.residual);
    else
      map<T>(Forward<T, 1>(a), a.y, a.x);
  });
}

/// Normalises in one launch if possible.
void batch_norm_train(const BatchNormTrainArgs& a, const Plan& plan, Workspace ws) {
  if (train_at_once(a)) return;
  batch_norm_statistics(a.statistics, plan, ws);
  batch_norm_apply(a.result);
}

}  // namespace

const BatchNormKernels& batch_norm_kernels() {
  static const BatchNormKernels all{
      .batch_norm_train = {batch_norm_plans().batch_norm_train.plan, batch_norm_train},
      .batch_norm_apply = batch_norm_apply,
      .batch_norm_backward = {batch_norm_plans().batch_norm_backward.plan, batch_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cuda
