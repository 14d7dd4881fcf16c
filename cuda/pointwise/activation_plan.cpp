#include <algorithm>
#include <bit>

#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/activation.h"
#include "bytetape/cuda/conv/bias_grad.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {
namespace {

constexpr std::int64_t enough_grad_blocks = 132;  // one per multiprocessor of an H100
constexpr std::int64_t full_grad_blocks = BiasGradLayout::resident * enough_grad_blocks;
constexpr std::int64_t most_thread_rows = 32;  // rows per thread, beyond which a second launch pays
constexpr std::int64_t least_thread_rows = 8;  // rows per thread in a split
constexpr int narrowest = 2;                   // threads side by side: memory returns 32 bytes at a time

}  // namespace

BiasGradLayout::BiasGradLayout(const ConstView& gy) : rows(gy.shape[0]), columns(gy.shape[1]) {
  const std::int64_t vectors = ceil_div(columns, lanes(size_of(gy.dtype)));
  const auto fit = [&](int threads_across) {
    across = threads_across;
    blocks = ceil_div(vectors, across);
  };
  const int widest =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(vectors, 1, warp))));
  // Narrow strips of columns give one launch enough blocks when there are few rows.
  fit(widest);
  while (across > narrowest && blocks < enough_grad_blocks && rows > along()) fit(across / 2);
  chunk = std::max<std::int64_t>(rows, 1);
  if (columns == 0 || ceil_div(rows, along()) <= most_thread_rows) return;
  fit(widest);
  if (blocks >= full_grad_blocks) return;
  splits = std::clamp<std::int64_t>(rows / (along() * least_thread_rows), 1, full_grad_blocks / blocks);
  const std::int64_t turn = along() * unroll;
  chunk = ceil_div(ceil_div(rows, splits), turn) * turn;
  splits = ceil_div(rows, chunk);
}

static Plan plan(const BiasGradArgs& a) {
  const BiasGradLayout layout(a.gy);
  if (layout.splits == 1) return {};
  return {.workspace = static_cast<std::size_t>(layout.splits * layout.columns) * sizeof(double)};
}

const ActivationKernels& activation_plans() {
  static const ActivationKernels all{
      .bias_grad = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
