#include "bytetape/core/cpu/table.h"

#include "bytetape/core/cpu/arithmetic.h"
#include "bytetape/core/cpu/compare.h"
#include "bytetape/core/cpu/conv.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/loss.h"
#include "bytetape/core/cpu/matmul.h"
#include "bytetape/core/cpu/norm.h"
#include "bytetape/core/cpu/optimizer.h"
#include "bytetape/core/cpu/pointwise.h"
#include "bytetape/core/cpu/pool.h"
#include "bytetape/core/cpu/random.h"
#include "bytetape/core/cpu/reduce.h"
#include "bytetape/core/cpu/softmax.h"

#ifdef BYTETAPE_HAS_ONEDNN
#include "bytetape/core/cpu/onednn/conv.h"
#include "bytetape/core/cpu/onednn/matmul.h"
#endif

namespace bytetape::cpu {

#ifdef BYTETAPE_HAS_ONEDNN
namespace dense = onednn;
#else
namespace dense = portable;
#endif

const Kernels kernels{
    // filling and copying
    .fill = fill,
    .copy = copy,
    .arange = arange,
    // random
    .uniform = uniform,
    .normal = normal,
    .randint = randint,
    .randperm_workspace = randperm_workspace,
    .randperm = randperm,
    .dropout = dropout,
    // elementwise
    .exp = exp,
    .log = log,
    .sqrt = sqrt,
    .rsqrt = rsqrt,
    .tanh = tanh,
    .sigmoid = sigmoid,
    .relu = relu,
    .erf = erf,
    .gelu = gelu,
    .abs = abs,
    .neg = neg,
    .sign = sign,
    .clamp = clamp,
    .tanh_backward = tanh_backward,
    .sigmoid_backward = sigmoid_backward,
    .relu_backward = relu_backward,
    .gelu_backward = gelu_backward,
    .add = add,
    .sub = sub,
    .mul = mul,
    .div = div,
    .pow = pow,
    .eq = eq,
    .ne = ne,
    .lt = lt,
    .le = le,
    .gt = gt,
    .ge = ge,
    .where = where,
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
    // linear algebra
    .matmul_workspace = dense::matmul_workspace,
    .matmul = dense::matmul,
    // convolution
    .conv2d_workspace = dense::conv2d_workspace,
    .conv2d = dense::conv2d,
    .conv2d_input_grad_workspace = dense::conv2d_input_grad_workspace,
    .conv2d_input_grad = dense::conv2d_input_grad,
    .conv2d_weight_grad_workspace = dense::conv2d_weight_grad_workspace,
    .conv2d_weight_grad = dense::conv2d_weight_grad,
    // pooling
    .max_pool2d = max_pool2d,
    .max_pool2d_backward = max_pool2d_backward,
    .max_pool2d_gather = max_pool2d_gather,
    // batch normalisation
    .batch_norm_workspace = batch_norm_workspace,
    .batch_norm_statistics = batch_norm_statistics,
    .batch_norm_apply = batch_norm_apply,
    .batch_norm_backward = batch_norm_backward,
    // losses
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .target_range = target_range,
    // optimizers
    .sgd = sgd,
    .adam = adam,
};

}  // namespace bytetape::cpu
