#pragma once
#include "tests/support/golden_case.h"

/// The ops of tests/golden/ops.csv. Each group has a file here, and one in tests/golden/op_cases with its cases.
namespace bytetape::test {

using A = const GoldenArguments&;
using X = const Tensors&;

/// An op with the arguments dims and keepdim.
inline GoldenOp reduced(Tensor (*f)(const Tensor&, const Dims&, bool)) {
  return [f](A a, X x) { return f(x[0], a.dims("dims"), a.flag("keepdim")); };
}

GoldenOps elementwise_ops();
GoldenOps indexing_ops();
GoldenOps loss_ops();
GoldenOps ordering_ops();
GoldenOps product_ops();
GoldenOps rearrange_ops();
GoldenOps reduce_ops();

}  // namespace bytetape::test
