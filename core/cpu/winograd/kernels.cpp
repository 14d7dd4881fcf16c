#include "bytetape/core/cpu/register_block.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/cpu/winograd/conv.h"

namespace bytetape::cpu {
namespace {

// oneDNN has the widest vectors of the processor, also if our kernels are compiled for another one.
#ifdef BYTETAPE_HAS_ONEDNN
constexpr bool has_wide_vectors = vector_bytes >= 32;
#else
constexpr bool has_wide_vectors = true;
#endif

/// A kernel that uses Winograd's algorithm if it suits, and the direct kernel `direct` otherwise.
template <class Args, auto direct, auto plan_fast, auto fast>
constexpr Planned<Args> chosen() {
  return {[](const Args& a) {
            return has_wide_vectors && winograd::suits(a) ? plan_fast(a) : (direct_conv_kernels().*direct).plan(a);
          },
          [](const Args& a, const Plan& plan, Workspace ws) {
            if (plan.algorithm == winograd::algorithm) return fast(a, ws.data);
            (direct_conv_kernels().*direct).launch(a, plan, ws);
          }};
}

}  // namespace

const ConvKernels& conv_kernels() {
  using K = ConvKernels;
  static const K all{
      .conv2d = chosen<Conv2dArgs, &K::conv2d, winograd::plan_conv2d, winograd::conv2d>(),
      .conv2d_input_grad =
          chosen<Conv2dInputGradArgs, &K::conv2d_input_grad, winograd::plan_input_grad, winograd::input_grad>(),
      .conv2d_weight_grad =
          chosen<Conv2dWeightGradArgs, &K::conv2d_weight_grad, winograd::plan_weight_grad, winograd::weight_grad>(),
  };
  return all;
}

}  // namespace bytetape::cpu
