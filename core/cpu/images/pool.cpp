#include <algorithm>
#include <type_traits>

#include "bytetape/core/cpu/images/resample.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

using resample::Range;
using resample::Windows;

/// Positions in a window, as wide as the elements, so that comparisons and selections use the same vector lanes.
template <class C>
using position_t = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;

/// Calls f(element, index, dense) with zeros of x's and the indices' types. `dense` is std::true_type if channels are
/// adjacent in all views.
template <class F>
void dispatch(const ConstView& x, const ConstView& indices, bool dense, F&& f) {
  visit_floating(x.dtype, [&](auto element) {
    const auto with = [&](auto index) {
      if (dense)
        f(element, index, std::true_type());
      else
        f(element, index, std::false_type());
    };
    if (indices.dtype == DType::u8)
      with(std::uint8_t{});
    else
      with(std::int32_t{});
  });
}

/// Applies ReLU to maxima. Those that it cuts off have no index.
template <class Index, class C, class Position>
void cut_off(std::int64_t count, C* best, Position* at) {
  for (std::int64_t k = 0; k < count; ++k) {
    const bool is_cut = best[k] <= C{0};  // false for NaN
    best[k] = is_cut ? C{0} : best[k];
    at[k] = is_cut ? Position{no_position<Index>} : at[k];
  }
}

void max_pool2d(const ConstView& x, const Pool2dParams& p, Activation activation, const View& y, const View& indices) {
  const bool keeps = indices.defined();
  const Windows rows(p, x.shape, y.shape, 0), columns(p, x.shape, y.shape, 1);
  const bool dense_channels = adjacent(x) && adjacent(y) && (!keeps || adjacent(indices));
  dispatch(x, indices, dense_channels, [&](auto element, auto index, auto dense) {
    using T = decltype(element);
    using C = compute_t<T>;
    using Position = position_t<C>;
    const auto from = image<const T, dense>(x);
    const auto to = image<T, dense>(y);
    const auto chosen = image<decltype(index), dense>(indices);
    for_each_strip(y, p.kernel.h * p.kernel.w, [&](auto n, auto h, auto c, auto count) {
      C best[lanes];
      Position at[lanes];
      const auto values_of = [](auto pixel) { return [=](std::int64_t k) { return static_cast<C>(pixel[k]); }; };
      for (std::int64_t w = 0; w < columns.outputs; ++w) {
        resample::max_of_window(rows, columns, from, n, c, h, w, count, best, at, values_of);
        if (activation == Activation::relu) cut_off<decltype(index)>(count, best, at);
        const auto result = to.at(n, c, h, w);
        for (std::int64_t k = 0; k < count; ++k) result[k] = static_cast<T>(best[k]);
        if (!keeps) continue;
        const auto positions = chosen.at(n, c, h, w);
        for (std::int64_t k = 0; k < count; ++k) positions[k] = static_cast<decltype(index)>(at[k]);
      }
    });
  });
}

// Finds for each input the windows that chose it. So each element of gx is written once, by one thread, also if windows
// overlap.
void max_pool2d_backward(const ConstView& gy, const ConstView& indices, const Pool2dParams& p, const View& gx) {
  const Windows rows(p, gx.shape, gy.shape, 0), columns(p, gx.shape, gy.shape, 1);
  const bool dense_channels = adjacent(gy) && adjacent(indices) && adjacent(gx);
  dispatch(gy, indices, dense_channels, [&](auto element, auto index, auto dense) {
    using T = decltype(element);
    using C = compute_t<T>;
    using Position = position_t<C>;
    const auto from = image<const T, dense>(gy);
    const auto chosen = image<const decltype(index), dense>(indices);
    const auto to = image<T, dense>(gx);
    for_each_strip(gx, 2, [&](auto n, auto h, auto c, auto count) {
      C sum[lanes];
      const Range above = rows.outputs_of(h);
      Range beside = columns.outputs_of(0);
      for (std::int64_t w = 0; w < columns.inputs; ++w) {
        columns.advance(beside, w);
        const auto result = to.at(n, c, h, w);
        const auto chosen_at = [&](std::int64_t i, std::int64_t j, const auto& take) {
          const auto gradients = from.at(n, c, i, j);
          const auto positions = chosen.at(n, c, i, j);
          const auto here = static_cast<Position>((h - rows.start(i)) * columns.kernel + w - columns.start(j));
          for (std::int64_t k = 0; k < count; ++k)
            take(k, static_cast<Position>(positions[k]) == here ? static_cast<C>(gradients[k]) : C{0});
        };
        if (above.end - above.begin == 1 && beside.end - beside.begin == 1) {  // usually windows do not overlap
          chosen_at(above.begin, beside.begin, [&](std::int64_t k, C g) { result[k] = static_cast<T>(g); });
          continue;
        }
        std::fill_n(sum, count, C{0});
        for (std::int64_t i = above.begin; i < above.end; ++i)
          for (std::int64_t j = beside.begin; j < beside.end; ++j)
            chosen_at(i, j, [&](std::int64_t k, C g) { sum[k] += g; });
        for (std::int64_t k = 0; k < count; ++k) result[k] = static_cast<T>(sum[k]);
      }
    });
  });
}

void max_pool2d_gather(const ConstView& x, const ConstView& indices, const Pool2dParams& p, const View& y) {
  const Windows rows(p, x.shape, y.shape, 0), columns(p, x.shape, y.shape, 1);
  const bool dense_channels = adjacent(x) && adjacent(indices) && adjacent(y);
  dispatch(x, indices, dense_channels, [&](auto element, auto index, auto dense) {
    using T = decltype(element);
    const auto from = image<const T, dense>(x);
    const auto chosen = image<const decltype(index), dense>(indices);
    const auto to = image<T, dense>(y);
    for_each_strip(y, 2, [&](auto n, auto h, auto c, auto count) {
      for (std::int64_t w = 0; w < columns.outputs; ++w) {
        const auto positions = chosen.at(n, c, h, w);
        const auto result = to.at(n, c, h, w);
        for (std::int64_t k = 0; k < count; ++k) {
          const std::int64_t i = positions[k] / columns.kernel, j = positions[k] % columns.kernel;
          const bool has_index = positions[k] != no_position<decltype(index)>;
          result[k] = has_index ? from.at(n, c + k, rows.start(h) + i, columns.start(w) + j)[0] : T{};
        }
      }
    });
  });
}

}  // namespace

const PoolKernels& pool_kernels() {
  static const PoolKernels all{
      .max_pool2d = max_pool2d,
      .max_pool2d_backward = max_pool2d_backward,
      .max_pool2d_gather = max_pool2d_gather,
      .avg_pool2d = ResampleKernels::avg_pool2d,
      .avg_pool2d_backward = ResampleKernels::avg_pool2d_backward,
      .adaptive_avg_pool2d = ResampleKernels::adaptive_avg_pool2d,
      .adaptive_avg_pool2d_backward = ResampleKernels::adaptive_avg_pool2d_backward,
  };
  return all;
}

}  // namespace bytetape::cpu
