#include <cmath>
#include <limits>

#include "bytetape/core/cpu/channels.h"
#include "bytetape/core/cpu/sum.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

/// Where adjacent channels are summed over pixels: blocks of pixels give one partial result each, added in the blocks'
/// order. Blocks depend on the shape alone, so that the threads do not show in the result, and stay in the L2 cache.
struct Blocks {
  std::int64_t channels, pixels, length, count;

  explicit Blocks(const ConstView& x) : channels(x.shape[1]), pixels(pixel_count(x)) {
    length = std::max<std::int64_t>(32, 16384 / std::max<std::int64_t>(channels, 1));
    count = (pixels + length - 1) / length;
  }
  std::int64_t work() const { return length * channels; }  // of one
  std::int64_t begin(std::int64_t block) const { return block * length; }
  std::int64_t end(std::int64_t block) const { return std::min(pixels, begin(block) + length); }
};

/// Two doubles a channel, then two numbers a block and channel (of the folded image, so that there may be several for
/// one of x).
template <class C>
struct Scratch {
  double* totals[2];
  C* partials;
  std::int64_t width;

  Scratch(const Workspace& ws, std::int64_t channels, std::int64_t fold) : width(channels * fold) {
    totals[0] = static_cast<double*>(ws.data);
    totals[1] = totals[0] + channels;
    partials = reinterpret_cast<C*>(totals[1] + channels);
  }
  C* partial(std::int64_t block, int which) const { return partials + (2 * block + which) * width; }
};

/// Element c, or a number where nothing is given.
double value(const ConstView& v, std::int64_t c, double otherwise = 0) {
  if (!v.defined()) return otherwise;
  return visit_floating(v.dtype,
                        [&](auto zero) { return static_cast<double>(v.as<decltype(zero)>()[c * v.strides[0]]); });
}

void set(const View& v, std::int64_t c, double to) {
  if (!v.defined()) return;
  visit_floating(v.dtype, [&](auto zero) {
    using T = decltype(zero);
    v.as<T>()[c * v.strides[0]] = static_cast<T>(static_cast<compute_t<T>>(to));
  });
}

/// How many, their mean, and the sum of squared distances from it (Chan, Golub & LeVeque, "Updating formulae and a
/// pairwise algorithm for computing sample variances", 1979).
struct Moments {
  double count = 0, mean = 0, m2 = 0;
  void merge(const Moments& o) {
    const double total = count + o.count, delta = o.mean - mean;
    mean += delta * o.count / total;
    m2 += o.m2 + delta * delta * count * o.count / total;
    count = total;
  }
};

/// f(first, count) for channels taken some at a time: what is summed for them fits local arrays, which alias nothing.
template <class F>
void for_each_lane_group(std::int64_t channels, F&& f) {
  for (std::int64_t first = 0; first < channels; first += detail::chunk)
    f(first, std::min(detail::chunk, channels - first));
}

// What is added for one pixel. Kept out of line: inlined, GCC 12 interchanges the loops over channels and pixels, and
// then neither is vectorised.
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

template <class T, class C>
[[gnu::noinline]] void add_gradients(std::int64_t count, const T* __restrict x, const T* __restrict gy,
                                     const C* __restrict center, C* __restrict sum, C* __restrict product) {
  for (std::int64_t c = 0; c < count; ++c) {
    const auto g = static_cast<C>(gy[c]);
    sum[c] += g;
    product[c] += g * (static_cast<C>(x[c]) - center[c]);
  }
}

/// The first pixel of a channel, from which distances are taken: sums of values far from zero, and a mean rounded
/// there, would lose what lies between them. 0 where distances from it would overflow.
template <class T, class C = compute_t<T>>
C pivot_of(const ConstView& x, std::int64_t c) {
  const auto first = static_cast<C>(x.as<T>()[c * x.strides[1]]);
  return std::abs(first) < std::numeric_limits<C>::max() / 4 ? first : C{0};
}

// The mean that a first pass gives is rounded, and what a second finds it to be off by (`rest`) corrects both moments.
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

/// f(i) for i in [0, count), in parallel; each costs about `work` elements.
template <class F>
void for_each_item(std::int64_t count, std::int64_t work, F&& f) {
  parallel_for(count, grain / std::max<std::int64_t>(work, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

/// Sums over a channel's gy, and over gy * (x - mean).
template <class T, class C = compute_t<T>>
void gradient_sums_of_block(const ConstView& x, const ConstView& gy, const ConstView& mean, std::int64_t begin,
                            std::int64_t end, C* sums, C* products) {
  for_each_lane_group(x.shape[1], [&](std::int64_t first, std::int64_t count) {
    alignas(64) C center[detail::chunk], sum[detail::chunk], product[detail::chunk];
    std::fill_n(sum, count, C{0});
    std::fill_n(product, count, C{0});
    for (std::int64_t c = 0; c < count; ++c) center[c] = static_cast<C>(value(mean, (first + c) % mean.shape[0]));
    for_each_pixel<2>({&x, &gy}, begin, end, [&](const auto& at) {
      add_gradients(count, x.as<T>() + at[0] + first, gy.as<T>() + at[1] + first, center, sum, product);
    });
    std::copy_n(sum, count, sums + first);
    std::copy_n(product, count, products + first);
  });
}

template <class T>
void gradient_sums(const ConstView& x, const ConstView& gy, const ConstView& mean, const Workspace& ws) {
  const std::int64_t channels = x.shape[1];
  if (channels_adjacent({&x, &gy})) {
    const std::int64_t fold = folding({&x, &gy});
    const ConstView wide_x = folded(x, fold), wide_gy = folded(gy, fold);
    const Blocks blocks(wide_x);
    const Scratch<compute_t<T>> to(ws, channels, fold);
    for_each_item(blocks.count, blocks.work(), [&](std::int64_t b) {
      gradient_sums_of_block<T>(wide_x, wide_gy, mean, blocks.begin(b), blocks.end(b), to.partial(b, 0),
                                to.partial(b, 1));
    });
    for_each_item(channels, 2 * blocks.count * fold, [&](std::int64_t c) {
      for (int which = 0; which < 2; ++which) {
        double total = 0;
        for (std::int64_t b = 0; b < blocks.count; ++b)
          for (std::int64_t i = c; i < blocks.channels; i += channels)
            total += static_cast<double>(to.partial(b, which)[i]);
        to.totals[which][c] = total;
      }
    });
    return;
  }
  const Scratch<compute_t<T>> to(ws, channels, 1);
  for_each_item(channels, 2 * pixel_count(x), [&](std::int64_t c) {
    const auto center = static_cast<compute_t<T>>(value(mean, c));
    double sum = 0, product = 0;
    for (std::int64_t n = 0; n < x.shape[0]; ++n)
      for_each_piece<T, 2>({&x, &gy}, n, c, [&](const auto& piece, const auto& g) {
        sum += static_cast<double>(sum_of(g));
        product += static_cast<double>(sum_of(g * (piece - center)));
      });
    to.totals[0][c] = sum;
    to.totals[1][c] = product;
  });
}

/// finish(c, moments) for each channel, in parallel. x has a pixel.
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

std::size_t scratch_bytes(const ConstView& x) {
  std::size_t partials = 0;  // gy may have gaps where x has none
  if (channels_adjacent({&x}))
    for (const std::int64_t fold : {std::int64_t{1}, folding({&x})}) {
      const Blocks blocks(folded(x, fold));
      partials = std::max(partials, 2 * static_cast<std::size_t>(blocks.count * blocks.channels));
    }
  return 2 * static_cast<std::size_t>(x.shape[1]) * sizeof(double) +
         partials * (x.dtype == DType::f64 ? sizeof(double) : sizeof(float));
}

template <class Args>
Plan plan(const Args& args) {
  return {scratch_bytes(args.x)};
}

void batch_norm_statistics(const BatchNormStatisticsArgs& a, const Plan&, Workspace ws) {
  visit_floating(a.x.dtype, [&](auto zero) {
    moments<decltype(zero)>(a.x, ws, [&](std::int64_t c, const Moments& all) {
      set(a.mean, c, all.mean);
      set(a.var, c, all.m2 / all.count);
    });
  });
}

void batch_norm_apply(const ConstView& x, const ConstView& weight, const ConstView& bias, const ConstView& mean,
                      const ConstView& var, double eps, const View& y) {
  const auto numbers = [&](std::int64_t c) {
    return std::array{value(mean, c), value(weight, c, 1) / std::sqrt(value(var, c) + eps), value(bias, c)};
  };
  visit_floating(x.dtype, [&](auto zero) {
    map_channels<decltype(zero)>(
        numbers,
        [](const auto& mean, const auto& scale, const auto& shift, const auto& x) {
          return (x - mean) * scale + shift;
        },
        y, x);
  });
}

// With r = 1 / sqrt(var + eps) and m pixels: gb = sum(gy), gw = r sum(gy (x - mean)), and in training
// gx = weight r (gy - sum(gy) / m - (x - mean) r^2 sum(gy (x - mean)) / m).
void batch_norm_backward(const BatchNormBackwardArgs& a, const Plan&, Workspace ws) {
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t channels = a.x.shape[1];
    const auto pixels = static_cast<double>(pixel_count(a.x));
    const auto rstd = [&](std::int64_t c) { return 1 / std::sqrt(value(a.var, c) + a.eps); };
    const Scratch<compute_t<T>> sums(ws, channels, 1);
    if (a.gw.defined() || a.gb.defined() || a.training) {
      gradient_sums<T>(a.x, a.gy, a.mean, ws);
      for (std::int64_t c = 0; c < channels; ++c) {
        set(a.gb, c, sums.totals[0][c]);
        set(a.gw, c, sums.totals[1][c] * rstd(c));
      }
    }
    if (!a.gx.defined()) return;
    if (!a.training) {
      map_channels<T>([&](std::int64_t c) { return std::array{value(a.weight, c, 1) * rstd(c)}; },
                      [](const auto& scale, const auto& g) { return g * scale; }, a.gx, a.gy);
      return;
    }
    const auto numbers = [&](std::int64_t c) {
      const double r = rstd(c), scale = value(a.weight, c, 1) * r;
      return std::array{scale, value(a.mean, c), -scale * r * r * sums.totals[1][c] / pixels,
                        -scale * sums.totals[0][c] / pixels};
    };
    map_channels<T>(
        numbers,
        [](const auto& scale, const auto& mean, const auto& slope, const auto& shift, const auto& g, const auto& x) {
          return g * scale + (x - mean) * slope + shift;
        },
        a.gx, a.gy, a.x);
  });
}

}  // namespace

NormKernels norm_kernels() {
  return {
      .batch_norm_statistics = {plan, batch_norm_statistics},
      .batch_norm_apply = batch_norm_apply,
      .batch_norm_backward = {plan, batch_norm_backward},
  };
}

}  // namespace bytetape::cpu
