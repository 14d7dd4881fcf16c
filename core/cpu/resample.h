#pragma once
#include <algorithm>
#include <type_traits>

#include "bytetape/core/cpu/strips.h"
#include "bytetape/core/resample.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace detail {

/// f(element, dense): of the type of both views; dense where both have their channels side by side.
template <class F>
void with_channels(const ConstView& from, const ConstView& to, F&& f) {
  visit_floating(from.dtype, [&](auto element) {
    if (adjacent(from) && adjacent(to))
      f(element, std::true_type());
    else
      f(element, std::false_type());
  });
}

/// What an element of `to` costs, which is made of some of `from`.
inline std::int64_t work(const ConstView& from, const ConstView& to) {
  return std::max<std::int64_t>(4, from.numel() / std::max<std::int64_t>(to.numel(), 1));
}

/// sum[k] += weight * values[k].
template <class C, class Values>
void add_weighted(C* sum, std::int64_t count, C weight, const Values& values) {
  for (std::int64_t k = 0; k < count; ++k) sum[k] += weight * static_cast<C>(values[k]);
}

}  // namespace detail

/// y from x as `rows` and `columns` tell (core/resample.h).
template <class Axis>
void weigh(const Axis& rows, const Axis& columns, const ConstView& x, const View& y) {
  detail::with_channels(x, y, [&](auto element, auto dense) {
    using T = decltype(element);
    using C = compute_t<T>;
    const auto from = image<const T, dense>(x);
    const auto to = image<T, dense>(y);
    for_each_strip(y, detail::work(x, y), [&](auto n, auto h, auto c, auto count) {
      C sum[lanes];
      const resample::Range above = rows.inputs_of(h);
      for (std::int64_t w = 0; w < columns.outputs; ++w) {
        const resample::Range beside = columns.inputs_of(w);
        std::fill_n(sum, count, C{0});
        for (std::int64_t i = above.begin; i < above.end; ++i)
          for (std::int64_t j = beside.begin; j < beside.end; ++j)
            detail::add_weighted(sum, count, static_cast<C>(rows.weight(h, i) * columns.weight(w, j)),
                                 from.at(n, c, i, j));
        const auto divisor = static_cast<C>(rows.divisor(h) * columns.divisor(w));
        const auto result = to.at(n, c, h, w);
        for (std::int64_t k = 0; k < count; ++k) result[k] = static_cast<T>(sum[k] / divisor);
      }
    });
  });
}

/// gx from gy. Asks for each input which outputs have it in them: every element is written once, by one thread.
template <class Axis>
void weigh_backward(const Axis& rows, const Axis& columns, const ConstView& gy, const View& gx) {
  detail::with_channels(gy, gx, [&](auto element, auto dense) {
    using T = decltype(element);
    using C = compute_t<T>;
    const auto from = image<const T, dense>(gy);
    const auto to = image<T, dense>(gx);
    for_each_strip(gx, detail::work(gy, gx), [&](auto n, auto h, auto c, auto count) {
      C sum[lanes];
      const resample::Range above = rows.outputs_of(h);
      for (std::int64_t w = 0; w < columns.inputs; ++w) {
        const resample::Range beside = columns.outputs_of(w);
        std::fill_n(sum, count, C{0});
        for (std::int64_t i = above.begin; i < above.end; ++i)
          for (std::int64_t j = beside.begin; j < beside.end; ++j) {
            const auto weight = static_cast<C>(rows.weight(i, h) * columns.weight(j, w));
            const auto divisor = static_cast<C>(rows.divisor(i) * columns.divisor(j));
            detail::add_weighted(sum, count, weight / divisor, from.at(n, c, i, j));
          }
        const auto result = to.at(n, c, h, w);
        for (std::int64_t k = 0; k < count; ++k) result[k] = static_cast<T>(sum[k]);
      }
    });
  });
}

}  // namespace bytetape::cpu
