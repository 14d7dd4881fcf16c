#include <algorithm>
#include <bit>

#include "bytetape/core/kernels/activation.h"
#include "bytetape/cuda/conv/bias_grad.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {
namespace {

constexpr std::int64_t enough_blocks = 132;  // one per multiprocessor of an H100
constexpr std::int64_t full_blocks = BiasGradLayout::resident * enough_blocks;
constexpr std::int64_t most_rows = 32;  // rows per thread, beyond which a second launch pays
constexpr std::int64_t least_rows = 8;  // rows per thread in a split
constexpr int narrowest = 2;            // threads side by side: memory returns 32 bytes at a time

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

BiasGradLayout::BiasGradLayout(const ConstView& gy) : rows(gy.shape[0]), columns(gy.shape[1]) {
  const std::int64_t vectors = divide_up(columns, lanes(size_of(gy.dtype)));
  const auto fit = [&](int threads_across) {
    across = threads_across;
    blocks = divide_up(vectors, across);
  };
  const int widest =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(vectors, 1, warp))));
  // Narrow strips of columns give one launch enough blocks when there are few rows.
  fit(widest);
  while (across > narrowest && blocks < enough_blocks && rows > along()) fit(across / 2);
  chunk = std::max<std::int64_t>(rows, 1);
  if (columns == 0 || divide_up(rows, along()) <= most_rows) return;
  fit(widest);
  if (blocks >= full_blocks) return;
  splits = std::clamp<std::int64_t>(rows / (along() * least_rows), 1, full_blocks / blocks);
  const std::int64_t turn = along() * unroll;
  chunk = divide_up(divide_up(rows, splits), turn) * turn;
  splits = divide_up(rows, chunk);
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
