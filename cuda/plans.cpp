#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

const Kernels& plans() {
  static const Kernels all(
      ConvKernels{
          .conv2d = {plan, nullptr}, .conv2d_input_grad = {plan, nullptr}, .conv2d_weight_grad = {plan, nullptr}},
      MatmulKernels{.matmul = {plan, nullptr}},
      NormKernels{.batch_norm_statistics = {plan, nullptr}, .batch_norm_backward = {plan, nullptr}},
      RandomKernels{.randperm = {plan, nullptr}}, ReduceKernels{.sum = {plan, nullptr}});
  return all;
}

}  // namespace bytetape::cuda
