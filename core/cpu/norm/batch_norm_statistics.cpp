// Mean and variance of each channel, and the update of the running statistics.
#include <limits>

#include "bytetape/core/cpu/norm/batch_norm.h"
#include "bytetape/core/cpu/sum.h"

namespace bytetape::cpu {
namespace {

/// Count, mean, and sum of squared distances from the mean (Chan, Golub & LeVeque, "Updating formulae and a pairwise
/// algorithm for computing sample variances", 1979).
struct Moments {
  double count = 0, mean = 0, m2 = 0;
  void merge(const Moments& o) {
    const double total = count + o.count, delta = o.mean - mean;
    mean += delta * o.count / total;
    m2 += o.m2 + delta * delta * count * o.count / total;
    count = total;
  }
};

// Adds the terms of one pixel. Out of line, because GCC 12 would interchange the inlined loops over channels and
// pixels, and then vectorise neither.
template <class T, class C>
[[gnu::noinline]] void add_distances(std::int64_t count, const T* __restrict x, const C* __restrict from,
                                     C* __restrict sum) {
  for (std::int64_t c = 0; c < count; ++c) sum[c] += static_cast<C>(x[c]) - from[c];
}

template <class T, class C>
[[gnu::noinline]] void add_squares(std::int64_t count, const T* __restrict x, const C* __restrict from,
                                   const C* __restrict mean, C* __restrict rest, C* __restrict sum) {
  for (std::int64_t c = 0; c < count; ++c) {
    const C distance = static_cast<C>(x[c]) - from[c] - mean[c];
    rest[c] += distance;
    sum[c] += distance * distance;
  }
}

/// Returns the first pixel of a channel, which is subtracted from all pixels. Without it, rounding of large values
/// would hide small differences. 0 if the differences could overflow.
template <class T, class C = compute_t<T>>
C pivot_of(const ConstView& x, std::int64_t c) {
  const auto first = static_cast<C>(x.as<T>()[c * x.strides[1]]);
  return std::abs(first) < std::numeric_limits<C>::max() / 4 ? first : C{0};
}

// The mean of the first pass is rounded. The second pass finds its error (`rest`), which corrects mean and variance.
template <class T, class C = compute_t<T>>
void moments_of_block(const ConstView& x, std::int64_t channels, std::int64_t begin, std::int64_t end, C* means,
                      C* m2s) {
  for_each_lane_group(x.shape[1], [&](std::int64_t first, std::int64_t count) {
    alignas(64) C pivot[detail::chunk], mean[detail::chunk], rest[detail::chunk], m2[detail::chunk];
    const T* start = x.as<T>() + first;
    for (std::int64_t c = 0; c < count; ++c) pivot[c] = pivot_of<T>(x, (first + c) % channels);
    for (C* sum : {mean, rest, m2}) std::fill_n(sum, count, C{0});
    for_each_pixel<1>({&x}, begin, end, [&](const auto& at) { add_distances(count, start + at[0], pivot, mean); });
    for (std::int64_t c = 0; c < count; ++c) mean[c] /= static_cast<C>(end - begin);
    for_each_pixel<1>({&x}, begin, end,
                      [&](const auto& at) { add_squares(count, start + at[0], pivot, mean, rest, m2); });
    for (std::int64_t c = 0; c < count; ++c) {
      const C off = rest[c] / static_cast<C>(end - begin);
      means[first + c] = mean[c] + off;
      m2s[first + c] = m2[c] - off * rest[c];
    }
  });
}

template <class T, class C = compute_t<T>>
Moments moments_of_plane(const ConstView& x, std::int64_t n, std::int64_t c, C pivot) {
  const auto count = static_cast<double>(x.shape[2] * x.shape[3]);
  double sum = 0, rest = 0, m2 = 0;
  for_each_piece<T, 1>({&x}, n, c, [&](const auto& piece) { sum += static_cast<double>(sum_of(piece - pivot)); });
  const auto mean = static_cast<C>(sum / count);
  for_each_piece<T, 1>({&x}, n, c, [&](const auto& piece) {
    const auto distance = piece - pivot - mean;
    rest += static_cast<double>(sum_of(distance));
    m2 += static_cast<double>(sum_of(distance.square()));
  });
  return {count, static_cast<double>(mean) + rest / count, m2 - rest * rest / count};
}

/// Calls finish(c, moments) for each channel, in parallel. x must have a pixel.
template <class T, class F>
void moments(const ConstView& x, const Workspace& ws, F&& finish) {
  using C = compute_t<T>;
  const std::int64_t channels = x.shape[1];
  if (channels_adjacent({&x})) {
    const std::int64_t fold = folding({&x});
    const ConstView wide = folded(x, fold);
    const Blocks blocks(wide);
    const Scratch<C> to(ws, channels, fold);
    for_each_item(blocks.count, blocks.work(), [&](std::int64_t b) {
      moments_of_block<T>(wide, channels, blocks.begin(b), blocks.end(b), to.partial(b, 0), to.partial(b, 1));
    });
    for_each_item(channels, 8 * blocks.count * fold, [&](std::int64_t c) {
      Moments all;
      for (std::int64_t b = 0; b < blocks.count; ++b)
        for (std::int64_t i = c; i < blocks.channels; i += channels)
          all.merge({static_cast<double>(blocks.end(b) - blocks.begin(b)), static_cast<double>(to.partial(b, 0)[i]),
                     static_cast<double>(to.partial(b, 1)[i])});
      all.mean += static_cast<double>(pivot_of<T>(x, c));
      finish(c, all);
    });
    return;
  }
  for_each_item(channels, 2 * pixel_count(x), [&](std::int64_t c) {
    Moments all;
    for (std::int64_t n = 0; n < x.shape[0]; ++n) all.merge(moments_of_plane<T>(x, n, c, pivot_of<T>(x, c)));
    all.mean += static_cast<double>(pivot_of<T>(x, c));
    finish(c, all);
  });
}

/// Moves element c of the running statistic towards `to`.
void move(const View& running, std::int64_t c, double momentum, double to) {
  set(running, c, value(running, c) * (1 - momentum) + to * momentum);
}

}  // namespace

void batch_norm_statistics(const BatchNormStatisticsArgs& a, Workspace ws) {
  visit_floating(a.x.dtype, [&](auto zero) {
    moments<decltype(zero)>(a.x, ws, [&](std::int64_t c, const Moments& all) {
      set(a.mean, c, all.mean);
      set(a.var, c, all.m2 / all.count);
      move(a.running_mean, c, a.momentum, all.mean);
      move(a.running_var, c, a.momentum, all.m2 / (all.count - 1));  // unbiased
    });
  });
  if (a.batches.defined() && a.x.numel() > 0) ++*a.batches.as<std::int64_t>();
}

}  // namespace bytetape::cpu
