#include "bytetape/core/cpu/table.h"

#include "bytetape/core/cpu/arithmetic.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/reduce.h"

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
};

}  // namespace bytetape::cpu
