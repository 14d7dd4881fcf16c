#include "bytetape/core/cpu/table.h"

#include "bytetape/core/cpu/arithmetic.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/loss.h"
#include "bytetape/core/cpu/matmul.h"
#include "bytetape/core/cpu/reduce.h"
#include "bytetape/core/cpu/softmax.h"

#ifdef BYTETAPE_HAS_ONEDNN
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
    // linear algebra
    .matmul_workspace = dense::matmul_workspace,
    .matmul = dense::matmul,
    // losses
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .target_range = target_range,
};

}  // namespace bytetape::cpu
