#include <algorithm>

#include "bytetape/core/kernels/matmul.h"
#include "bytetape/cuda/matmul/matmul_layout.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/precision.h"

namespace bytetape::cuda {

// Workspace for partial products. cuBLASLt adds them if there are too few tiles for all multiprocessors. Long sums in
// full f32 are also more accurate in parts.
std::size_t library_workspace(const MatmulArgs& args, WorkspaceCap cap) {
  const bool is_full_f32 = args.a.dtype == DType::f32 && !allow_tf32();
  constexpr std::size_t partials = 16;
  const std::size_t most = std::size_t{is_full_f32 ? 32u : 8u} << 20;
  const auto results = static_cast<std::size_t>(args.y.numel()) * std::max(size_of(args.y.dtype), sizeof(float));
  return std::min(cap.value_or(most), aligned(results * partials));
}

// The workspace has cuBLASLt's part, and then copies of matrices without a unit step.
static Plan plan(const MatmulArgs& args) {
  const std::size_t library = library_workspace(args, workspace_cap(args.y.device));
  return {library + copy_bytes(args.a) + copy_bytes(args.b), static_cast<std::int64_t>(library)};
}

bool approximates(const MatmulArgs& args) {
  const bool is_exact = args.a.dtype == DType::f64 || (args.a.dtype == DType::f32 && !allow_tf32());
  return args.activation == Activation::gelu_tanh && !is_exact;
}

const MatmulKernels& matmul_plans() {
  static const MatmulKernels all{
      .matmul = {plan, nullptr},
      .approximates = approximates,
      .multiple = dim_multiple,
  };
  return all;
}

}  // namespace bytetape::cuda
