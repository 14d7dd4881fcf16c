#include "bytetape/core/cpu/table.h"

#include "bytetape/core/cpu/arithmetic.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/loss.h"
#include "bytetape/core/cpu/reduce.h"
#include "bytetape/core/cpu/softmax.h"
#include "bytetape/core/cpu/norm.h"
#include "bytetape/core/cpu/optimizer.h"
#include "bytetape/core/cpu/pool.h"

namespace bytetape::cpu {

const Kernels kernels{
    // filling and copying
    .fill = fill,
    .copy = copy,
    .arange = arange,
    // elementwise
    .neg = neg,
    .add = add,
    .sub = sub,
    .mul = mul,
    .div = div,
    .pow = pow,
    // reductions
    .sum = sum,
    .max = max,
    .min = min,
    .argmax = argmax,
    // softmax
    .softmax = softmax,
    .log_softmax = log_softmax,
    .softmax_backward = softmax_backward,
    .log_softmax_backward = log_softmax_backward,
    // losses
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .target_range = target_range,
    // pooling
    .max_pool2d = max_pool2d,
    .max_pool2d_backward = max_pool2d_backward,
    .max_pool2d_gather = max_pool2d_gather,
    // batch normalisation
    .batch_norm_workspace = batch_norm_workspace,
    .batch_norm_statistics = batch_norm_statistics,
    .batch_norm_apply = batch_norm_apply,
    .batch_norm_backward = batch_norm_backward,
    // optimizers
    .sgd = sgd,
    .adam = adam,
};

}  // namespace bytetape::cpu
