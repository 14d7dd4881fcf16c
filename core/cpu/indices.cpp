#include "bytetape/core/cpu/indices.h"

#include <atomic>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/device/fault.h"

namespace bytetape::cpu {

void check_indices(const ConstView& index, std::int64_t bound) {
  const auto is_valid = [bound](std::int64_t i) { return i >= 0 && i < bound; };
  std::atomic<bool> are_valid = true;
  if (index.numel() > 0)
    for_each_row(make_loop<1>({&index}), [&](std::int64_t n, const auto& p, const auto& step) {
      bool all = true;
      for (std::int64_t i = 0; i < n; ++i) all &= is_valid(number_at(p[0] + i * step[0]));
      if (!all) are_valid = false;
    });
  if (are_valid) return;
  ConstView row_major = index;
  row_major.strides = contiguous_strides(index.shape);
  walk_rows(make_loop<2>({&row_major, &index}), 0, index.numel(), [&](std::int64_t n, const auto& p, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i)
      if (const std::int64_t v = number_at(p[1] + i * step[1]); !is_valid(v))
        throw_fault({Fault::Kind::index, v, bound});
  });
}

}  // namespace bytetape::cpu
