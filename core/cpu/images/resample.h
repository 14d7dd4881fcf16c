#pragma once
#include <algorithm>
#include <type_traits>

#include "bytetape/core/cpu/images/strips.h"
#include "bytetape/core/images/resample_kernels.h"
#include "bytetape/core/visit.h"

/// Resizes images (core/images/resample.h). A pixel is a weighted sum of column sums, and a column sum is a weighted
/// sum of pixels of one column. The bits are the same in every layout. The inner loop is over channels if they are
/// adjacent, else over columns of a plane.
namespace bytetape::cpu {
namespace detail {

/// The weights of y from x. Pixel `to` is the weighted sum of range_of(to), divided by divisor(to).
template <class Axis>
struct ForwardTaps {
  const Axis& axis;
  resample::Range range_of(std::int64_t to) const { return axis.inputs_of(to); }
  auto weight(std::int64_t to, std::int64_t from) const { return axis.weight(to, from); }
  auto divisor(std::int64_t to) const { return axis.divisor(to); }
};

/// The weights of gx from gy, in the same form. Each input finds the outputs that contain it, so that it is written
/// once, by one thread.
template <class Axis>
struct BackwardTaps {
  const Axis& axis;
  resample::Range range_of(std::int64_t to) const { return axis.outputs_of(to); }
  double weight(std::int64_t to, std::int64_t from) const {
    return axis.weight(from, to) / static_cast<double>(axis.divisor(from));
  }
  int divisor(std::int64_t) const { return 1; }
};

/// Caches the ranges and weights of the first pixels of a line. Later pixels are computed by `way`.
template <class Way>
class CachedTaps {
 public:
  CachedTaps(const Way& way, std::int64_t outputs) : way_(way) {
    for (int pairs = 0; known_ < std::min(outputs, most); ++known_) {
      const resample::Range range = way.range_of(known_);
      if (pairs + range.end - range.begin > 2 * most) break;
      ranges_[known_] = {range.begin, range.end};
      weights_of_[known_] = pairs;
      for (std::int64_t from = range.begin; from < range.end; ++from) weights_[pairs++] = way.weight(known_, from);
    }
  }

  resample::Range range_of(std::int64_t to) const { return to < known_ ? ranges_[to] : way_.range_of(to); }
  double weight(std::int64_t to, std::int64_t from) const {
    return to < known_ ? weights_[weights_of_[to] + from - ranges_[to].begin] : way_.weight(to, from);
  }
  auto divisor(std::int64_t to) const { return way_.divisor(to); }

 private:
  static constexpr std::int64_t most = 1024;
  Way way_;
  std::int64_t known_ = 0;
  resample::Range ranges_[most];
  int weights_of_[most];
  double weights_[2 * most];
};

/// Returns the cost of an element of `to`, which is computed from elements of `from`.
inline std::int64_t work(const ConstView& from, const ConstView& to) {
  return std::max<std::int64_t>(4, from.numel() / std::max<std::int64_t>(to.numel(), 1));
}

/// Adds weight * values[k] to sum[k], or stores it there if `is_first`.
template <class C, class Values>
void add_weighted(C* sum, std::int64_t count, C weight, const Values& values, bool is_first) {
  if (is_first)
    for (std::int64_t k = 0; k < count; ++k) sum[k] = weight * static_cast<C>(values[k]);
  else
    for (std::int64_t k = 0; k < count; ++k) sum[k] += weight * static_cast<C>(values[k]);
}

/// The column sums for row h of an image, for some columns at a time. They have `count` adjacent channels, or one
/// channel.
template <class C, class T, class Axis, bool side_by_side>
class ColumnSums {
 public:
  ColumnSums(const Axis& rows, std::int64_t h, const T* image, const ConstView& v, std::int64_t count)
      : rows_(rows),
        h_(h),
        above_(rows.range_of(h)),
        image_(image),
        down_(v.strides[2]),
        across_(v.strides[3]),
        width_(v.shape[3]),
        count_(count) {}

  /// Computes the sums from column j on, if they are not there. Returns the end of the computed columns.
  std::int64_t reach(std::int64_t j) {
    if (j < begin_ || j >= end_) fill(j);
    return end_;
  }
  const C* operator[](std::int64_t j) const { return sums_ + (j - begin_) * count_; }

 private:
  void fill(std::int64_t begin) {
    begin_ = begin;
    end_ = std::min(begin + most / count_, width_);
    if (above_.begin == above_.end) std::fill_n(sums_, (end_ - begin_) * count_, C{0});
    for (std::int64_t i = above_.begin; i < above_.end; ++i) {
      const auto weight = static_cast<C>(rows_.weight(h_, i));
      const bool is_first = i == above_.begin;
      const T* row = image_ + i * down_;
      if constexpr (side_by_side)
        for (std::int64_t j = begin_; j < end_; ++j)
          add_weighted(sums_ + (j - begin_) * count_, count_, weight, row + j * across_, is_first);
      else
        add_weighted(sums_, end_ - begin_, weight, Channels<const T, false>{row + begin_ * across_, across_}, is_first);
    }
  }

  static constexpr std::int64_t most = 16 * lanes;
  const Axis& rows_;
  std::int64_t h_;
  resample::Range above_;
  const T* image_;
  std::int64_t down_, across_, width_, count_, begin_ = 0, end_ = 0;
  C sums_[most];
};

/// Computes row h, which begins at `to`, for `channels` adjacent channels or for one channel.
template <bool side_by_side, class C, class T, class Axis>
void weigh_row(const Axis& rows, const Axis& columns, std::int64_t h, const ConstView& from, const T* image,
               const View& y, T* to, std::int64_t channels) {
  const std::int64_t count = side_by_side ? channels : 1;
  ColumnSums<C, T, Axis, side_by_side> made(rows, h, image, from, count);
  for (std::int64_t w = 0; w < y.shape[3]; ++w, to += y.strides[3]) {
    C sum[side_by_side ? lanes : 1];
    const resample::Range beside = columns.range_of(w);
    if (beside.begin == beside.end) std::fill_n(sum, count, C{0});
    for (std::int64_t j = beside.begin; j < beside.end;)
      for (const std::int64_t end = std::min(made.reach(j), beside.end); j < end; ++j)
        add_weighted(sum, count, static_cast<C>(columns.weight(w, j)), made[j], j == beside.begin);
    const auto divisor = static_cast<C>(rows.divisor(h) * columns.divisor(w));
    for (std::int64_t k = 0; k < count; ++k) to[k] = static_cast<T>(sum[k] / divisor);
  }
}

template <class Way>
void weigh(const Way& down, const Way& across, const ConstView& from, const View& to) {
  const CachedTaps rows(down, to.shape[2]), columns(across, to.shape[3]);
  const bool side_by_side = adjacent(from) && adjacent(to);
  visit_floating(from.dtype, [&](auto element) {
    using T = decltype(element);
    using C = compute_t<T>;
    const auto x = image<const T, false>(from);
    const auto y = image<T, false>(to);
    for_each_strip(to, work(from, to), [&](auto n, auto h, auto c, auto count) {
      if (side_by_side)
        return weigh_row<true, C>(rows, columns, h, from, x.at(n, c, 0, 0).data, to, y.at(n, c, h, 0).data, count);
      for (std::int64_t k = c; k < c + count; ++k)
        weigh_row<false, C>(rows, columns, h, from, x.at(n, k, 0, 0).data, to, y.at(n, k, h, 0).data, 1);
    });
  });
}

}  // namespace detail

struct Resampler {
  template <class Axis>
  static void weigh(const Axis& rows, const Axis& columns, const ConstView& x, const View& y) {
    using detail::ForwardTaps;
    detail::weigh(ForwardTaps<Axis>{rows}, ForwardTaps<Axis>{columns}, x, y);
  }
  template <class Axis>
  static void weigh_backward(const Axis& rows, const Axis& columns, const ConstView& gy, const View& gx) {
    using detail::BackwardTaps;
    detail::weigh(BackwardTaps<Axis>{rows}, BackwardTaps<Axis>{columns}, gy, gx);
  }
};
using ResampleKernels = resample::Kernels<Resampler>;

}  // namespace bytetape::cpu
