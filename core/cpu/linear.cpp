// The gradient of a linear layer's weight and bias: a product and a sum of this table.
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

Plan plan(const LinearWeightGradArgs& args) { return kernels().matmul.plan(product_of(args)); }

void linear_weight_grad(const LinearWeightGradArgs& args, const Plan& plan, Workspace ws) {
  kernels().matmul.launch(product_of(args), plan, ws);
  if (args.gb.defined()) kernels().sum.launch({args.gy, as_row(args.gb)}, {}, {});
}

}  // namespace

MatmulKernels with_linear(MatmulKernels products) {
  products.linear_weight_grad = {plan, linear_weight_grad};
  return products;
}

}  // namespace bytetape::cpu
