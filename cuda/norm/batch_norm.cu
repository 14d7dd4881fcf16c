// Forward of batch normalisation, and its kernel table.
#include "bytetape/cuda/norm/batch_norm.h"

#include "bytetape/cuda/norm/batch_norm_map.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/gelu.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// Computes y from x, or from x and a residual if there are two inputs.
template <class T, int n>
struct Forward : Normalise<T> {
  static constexpr int inputs = n;
  using C = compute_t<T>;
  Activation activation;

  explicit Forward(const BatchNormApplyArgs& a) : Normalise<T>(a), activation(a.activation) {}
  template <class Numbers>
  __device__ C operator()(const Numbers& of_channel, int k, const C (&x)[n]) const {
    C y = of_channel(k, x[0]);
    if constexpr (n == 2) y += x[1];
    if (activation == Activation::gelu_tanh) return GeluTanh<T>()(widened(narrowed<T>(y)));
    return activation == Activation::relu && y < 0 ? C(0) : y;
  }
};

void batch_norm_apply(const BatchNormApplyArgs& a) {
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (a.residual.defined())
      map<T>(Forward<T, 2>(a), a.y, a.x, a.residual);
    else
      map<T>(Forward<T, 1>(a), a.y, a.x);
  });
}

}  // namespace

const BatchNormKernels& batch_norm_kernels() {
  static const BatchNormKernels all{
      .batch_norm_statistics = {batch_norm_plans().batch_norm_statistics.plan, batch_norm_statistics},
      .batch_norm_apply = batch_norm_apply,
      .batch_norm_backward = {batch_norm_plans().batch_norm_backward.plan, batch_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cuda
