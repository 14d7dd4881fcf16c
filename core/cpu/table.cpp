#include "bytetape/core/cpu/table.h"

#include "bytetape/core/cpu/arithmetic.h"
#include "bytetape/core/cpu/compare.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/pointwise.h"
#include "bytetape/core/cpu/random.h"

namespace bytetape::cpu {

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
};

}  // namespace bytetape::cpu
