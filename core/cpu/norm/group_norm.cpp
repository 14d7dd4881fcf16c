// Group normalisation. A thread takes one group of an image at a time. If channels are adjacent, it takes as many
// groups as fit a row of lanes. It computes the moments in two passes, then the result, while the elements are in the
// cache.
#include <cmath>

#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/norm/batch_norm.h"
#include "bytetape/core/cpu/sum.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/group_norm.h"

namespace bytetape::cpu {
namespace {

constexpr std::int64_t most_groups = detail::chunk;  // groups of an Item
constexpr std::int64_t fold_every = 64;  // pixels summed in the compute type; these sums are added in double

/// Adjacent groups of an image.
struct Item {
  std::int64_t image, first, groups, of_group;

  std::int64_t channel() const { return first * of_group; }  // the first channel
  template <class T, class V>
  V of(const V& x) const {
    return V(x.template as<T>() + image * x.strides[0] + channel() * x.strides[1], x.dtype, x.device,
             {1, groups * of_group, x.shape[2], x.shape[3]}, x.strides);
  }
};

/// Calls f(item) for all groups of x, in parallel.
template <class F>
void for_each_group(const ConstView& x, std::int64_t groups, F&& f) {
  const std::int64_t of_group = x.shape[1] / groups;
  const std::int64_t fit = std::clamp<std::int64_t>(most_groups / std::max<std::int64_t>(of_group, 1), 1, groups);
  const std::int64_t at_once = channels_adjacent({&x}) ? fit : 1, items = (groups + at_once - 1) / at_once;
  for_each_item(x.shape[0] * items, 4 * at_once * of_group * x.shape[2] * x.shape[3], [&](std::int64_t i) {
    const std::int64_t first = i % items * at_once;
    f(Item{i / items, first, std::min(at_once, groups - first), of_group});
  });
}

// Adds the terms of one pixel. Out of line, as in batch_norm_statistics.cpp.
template <class C, class F, class... T>
[[gnu::noinline]] void add_pixel(std::int64_t count, const F& f, const C* __restrict center, C* __restrict sum,
                                 const T* __restrict... x) {
  for (std::int64_t c = 0; c < count; ++c) sum[c] += f(center[c], static_cast<C>(x[c])...);
}

/// sums_by_channel() for `count` adjacent channels from `first` on.
template <class T, std::size_t K, class Center, class Sink, class... F>
void sums_of_lanes(const std::array<const ConstView*, K>& images, std::int64_t first, std::int64_t count,
                   const Center& center, const Sink& sink, const F&... f) {
  using C = compute_t<T>;
  constexpr std::size_t wanted = sizeof...(F);
  alignas(64) C centers[detail::chunk], sums[wanted][detail::chunk];
  std::array<double, wanted> totals[detail::chunk];
  for (std::int64_t c = 0; c < count; ++c) {
    centers[c] = center(first + c);
    totals[c] = {};
  }
  const auto add = [&]<std::size_t... I>(const auto& at, std::index_sequence<I...>) {
    std::size_t k = 0;
    (add_pixel(count, f, centers, sums[k++], images[I]->template as<T>() + first + at[I]...), ...);
  };
  const std::int64_t pixels = pixel_count(*images[0]);
  for (std::int64_t begin = 0; begin < pixels; begin += fold_every) {
    for (auto& lanes : sums) std::fill_n(lanes, count, C{0});
    for_each_pixel<K>(images, begin, std::min(begin + fold_every, pixels),
                      [&](const auto& at) { add(at, std::make_index_sequence<K>()); });
    for (std::int64_t c = 0; c < count; ++c)
      for (std::size_t k = 0; k < wanted; ++k) totals[c][k] += static_cast<double>(sums[k][c]);
  }
  for (std::int64_t c = 0; c < count; ++c) sink(first + c, totals[c]);
}

/// Calls sink(c, sums) for each channel c of an image, or of several images of one shape and layout. The sums are those
/// of each f(center(c), values...) over the channel's pixels. f takes numbers or arrays.
template <class T, std::size_t K, class Center, class Sink, class... F>
void sums_by_channel(const std::array<const ConstView*, K>& images, const Center& center, const Sink& sink,
                     const F&... f) {
  const std::int64_t channels = images[0]->shape[1];
  if (channels_adjacent({images[0]}))
    return for_each_lane_group(channels, [&](std::int64_t first, std::int64_t count) {
      sums_of_lanes<T>(images, first, count, center, sink, f...);
    });
  for (std::int64_t c = 0; c < channels; ++c) {
    std::array<double, sizeof...(F)> totals{};
    for_each_piece<T, K>(images, 0, c, [&](const auto&... values) {
      std::size_t k = 0;
      ((totals[k++] += static_cast<double>(sum_of(f(center(c), values...)))), ...);
    });
    sink(c, totals);
  }
}

template <class T, class C = compute_t<T>>
void normalise(const GroupNormArgs& a, const Item& item) {
  const ConstView x = item.of<T>(a.x);
  const std::int64_t at = item.image * a.groups + item.first;
  const auto count = static_cast<double>(item.of_group * pixel_count(x));
  C *const mean = a.mean.as<C>() + at, *const rstd = a.rstd.as<C>() + at;
  double sums[most_groups] = {}, squares[most_groups] = {};
  const auto group = [&](std::int64_t c) { return c / item.of_group; };
  const auto center = [&](std::int64_t c) { return mean[group(c)]; };

  sums_by_channel<T, 1>(
      {&x}, [](std::int64_t) { return C{0}; },
      [&](std::int64_t c, const auto& of_channel) { sums[group(c)] += of_channel[0]; },
      [](C, const auto& v) { return v; });
  for (std::int64_t g = 0; g < item.groups; ++g) mean[g] = static_cast<C>(std::exchange(sums[g], 0) / count);
  sums_by_channel<T, 1>(
      {&x}, center,
      [&](std::int64_t c, const auto& of_channel) {
        sums[group(c)] += of_channel[0];
        squares[group(c)] += of_channel[1];
      },
      [](C m, const auto& v) { return v - m; }, [](C m, const auto& v) { return (v - m) * (v - m); });
  for (std::int64_t g = 0; g < item.groups; ++g) {
    const double rest = sums[g] / count;  // the error of the rounded mean
    mean[g] += static_cast<C>(rest);
    rstd[g] = static_cast<C>(1 / std::sqrt(std::max(squares[g] / count - rest * rest, 0.0) + a.eps));
  }
  map_channels<T>(
      [&](std::int64_t c) {
        const std::int64_t channel = item.channel() + c;
        return std::array{static_cast<double>(center(c)),
                          static_cast<double>(rstd[group(c)]) * value(a.weight, channel, 1), value(a.bias, channel)};
      },
      [](const auto& m, const auto& scale, const auto& shift, const auto& v) { return (v - m) * scale + shift; },
      item.of<T>(a.y), x);
}

void group_norm(const GroupNormArgs& a) {
  if (a.x.numel() == 0) return;
  visit_floating(a.x.dtype, [&](auto zero) {
    for_each_group(a.x, a.groups, [&](const Item& item) { normalise<decltype(zero)>(a, item); });
  });
}

/// Sums over the pixels of a channel of an image.
struct GradientSums {
  double gy, product;  // product: of gy (x - mean)
};

Plan plan(const GroupNormBackwardArgs& a) {
  return {.workspace = static_cast<std::size_t>(a.x.shape[0] * a.x.shape[1]) * sizeof(GradientSums)};
}

// With h = (x - mean) rstd and g = gy weight: in each group of m elements gx = rstd (g - mean(g) - h mean(g h)).
template <class T, class C = compute_t<T>>
void backward_of(const GroupNormBackwardArgs& a, const Item& item, GradientSums* of_channels) {
  const ConstView x = item.of<T>(a.x), gy = item.of<T>(a.gy);
  const std::int64_t at = item.image * a.groups + item.first;
  const auto count = static_cast<double>(item.of_group * pixel_count(x));
  const C *const mean = a.mean.as<C>() + at, *const rstd = a.rstd.as<C>() + at;
  const auto group = [&](std::int64_t c) { return c / item.of_group; };
  const auto weight = [&](std::int64_t c) { return value(a.weight, item.channel() + c, 1); };
  double sums[most_groups] = {}, products[most_groups] = {};
  sums_by_channel<T, 2>(
      {&x, &gy}, [&](std::int64_t c) { return mean[group(c)]; },
      [&](std::int64_t c, const auto& of_channel) {
        of_channels[c] = {of_channel[0], of_channel[1]};
        sums[group(c)] += weight(c) * of_channel[0];
        products[group(c)] += weight(c) * of_channel[1];
      },
      [](C, const auto&, const auto& g) { return g; }, [](C m, const auto& v, const auto& g) { return g * (v - m); });
  if (!a.gx.defined()) return;
  map_channels<T>(
      [&](std::int64_t c) {
        const std::int64_t g = group(c);
        const auto r = static_cast<double>(rstd[g]);
        return std::array{static_cast<double>(mean[g]), r * weight(c), -r * r * r * products[g] / count,
                          -r * sums[g] / count};
      },
      [](const auto& m, const auto& scale, const auto& slope, const auto& offset, const auto& g, const auto& v) {
        return g * scale + (v - m) * slope + offset;
      },
      item.of<T>(a.gx), gy, x);
}

/// Computes gw and gb from the sums of all images.
void coefficient_gradients(const GroupNormBackwardArgs& a, const GradientSums* sums) {
  const std::int64_t channels = a.x.shape[1], of_group = channels / a.groups;
  for_each_item(channels, 4 * a.x.shape[0], [&](std::int64_t c) {
    double gw = 0, gb = 0;
    for (std::int64_t n = 0; n < a.x.shape[0]; ++n) {
      const GradientSums& of_channel = sums[n * channels + c];
      gb += of_channel.gy;
      gw += of_channel.product * visit_floating(a.rstd.dtype, [&](auto zero) {
              return static_cast<double>(a.rstd.as<decltype(zero)>()[n * a.groups + c / of_group]);
            });
    }
    set(a.gw, c, gw);
    set(a.gb, c, gb);
  });
}

void group_norm_backward(const GroupNormBackwardArgs& a, const Plan&, Workspace ws) {
  if (a.x.numel() == 0) {
    for (const View* v : {&a.gw, &a.gb})
      if (v->defined()) fill(0, *v);
    return;
  }
  auto* sums = static_cast<GradientSums*>(ws.data);
  visit_floating(a.x.dtype, [&](auto zero) {
    for_each_group(a.x, a.groups, [&](const Item& item) {
      backward_of<decltype(zero)>(a, item, sums + item.image * a.x.shape[1] + item.channel());
    });
  });
  if (a.gw.defined() || a.gb.defined()) coefficient_gradients(a, sums);
}

}  // namespace

const GroupNormKernels& group_norm_kernels() {
  static const GroupNormKernels all{
      .group_norm = group_norm,
      .group_norm_backward = {plan, group_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cpu
