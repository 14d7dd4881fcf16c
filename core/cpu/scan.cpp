// Cumulative sums of rows along a dim. Each row is summed in order, so the number of threads does not change the bits.
// Rows with adjacent elements are summed side by side.
#include "bytetape/core/kernels/scan.h"

#include <algorithm>
#include <cstdlib>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

constexpr std::int64_t most_side_by_side = 256;

using Pair = std::array<std::int64_t, 2>;  // byte steps of y and x

/// Computes cumulative sums of `rows` rows of n elements. At most `most` rows. `along` steps within a row, `across`
/// from row to row.
template <std::int64_t most, class T, class Out>
void cumsum_rows(std::array<char*, 2> p, std::int64_t n, Pair along, std::int64_t rows, Pair across) {
  using Total = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;  // integers wrap around
  Total totals[most] = {};
  for (std::int64_t i = 0; i < n; ++i, p[0] += along[0], p[1] += along[1])
    for (std::int64_t j = 0; j < (most == 1 ? 1 : rows); ++j) {
      const T x = *reinterpret_cast<const T*>(p[1] + j * across[1]);
      totals[j] += static_cast<Total>(static_cast<compute_t<T>>(x));
      *reinterpret_cast<Out*>(p[0] + j * across[0]) = static_cast<Out>(static_cast<compute_t<Out>>(totals[j]));
    }
}

template <class T, class Out>
void cumsum_of(const ConstView& x, int dim, bool is_reversed, const View& y) {
  const std::int64_t n = y.shape[dim];
  Pair along{y.strides[dim] * static_cast<std::int64_t>(sizeof(Out)),
             x.strides[dim] * static_cast<std::int64_t>(sizeof(T))};
  Pair first{};
  if (is_reversed) {
    first = {(n - 1) * along[0], (n - 1) * along[1]};
    along = {-along[0], -along[1]};
  }
  ConstView first_y = y, first_x = x;
  first_y.shape[dim] = first_x.shape[dim] = 1;
  const auto rows = [&](std::int64_t count, const std::array<char*, 2>& p, const Pair& across) {
    const bool side_by_side = across[0] < std::abs(along[0]);
    const std::int64_t at_once = side_by_side ? most_side_by_side : 1;
    const auto cumsum = side_by_side ? cumsum_rows<most_side_by_side, T, Out> : cumsum_rows<1, T, Out>;
    for (std::int64_t j = 0; j < count; j += at_once)
      cumsum({p[0] + j * across[0] + first[0], p[1] + j * across[1] + first[1]}, n, along, std::min(at_once, count - j),
             across);
  };
  for_each_row(make_loop<2>({&first_y, &first_x}), rows, std::max<std::int64_t>(grain / n, 1));
}

void cumsum(const ConstView& x, int dim, bool is_reversed, const View& y) {
  if (y.numel() == 0) return;
  visit(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    cumsum_of<T, std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>(x, dim, is_reversed, y);
  });
}

}  // namespace

const ScanKernels& scan_kernels() {
  static const ScanKernels all{
      .cumsum = cumsum,
  };
  return all;
}

}  // namespace bytetape::cpu
