// Gradients of batch normalisation: gy passes through the activation, is summed over each channel, and then gives gx.
#include "bytetape/core/cpu/norm/batch_norm.h"
#include "bytetape/core/cpu/sum.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/arithmetic.h"
#include "bytetape/core/kernels/pointwise.h"

namespace bytetape::cpu {
namespace {

/// Returns g, or 0 where y <= 0. y and g are numbers or arrays.
template <class Y, class G>
auto passed(const Y& y, const G& g) {
  if constexpr (std::is_arithmetic_v<G>)
    return y <= 0 ? G{0} : g;
  else
    return y.binaryExpr(g, [](auto of_y, auto of_g) { return passed(of_y, of_g); });
}

/// Returns bn(x) for a number or an array x.
template <class C, class X>
auto normalised(C mean, C scale, C shift, const X& x) {
  return (x - mean) * scale + shift;
}

/// Calls f with std::true_type if the activation's mask must be recomputed from x, else with std::false_type.
template <class F>
void with_mask(const BatchNormBackwardArgs& a, F&& f) {
  if (a.activation == Activation::relu && !a.y.defined())
    f(std::true_type());
  else
    f(std::false_type());
}

/// Mean, scale and shift of some channels.
template <class C>
struct Lanes {
  alignas(64) C mean[detail::chunk], scale[detail::chunk], shift[detail::chunk];
  Lanes(const BatchNormBackwardArgs& a, std::int64_t first, std::int64_t count) {
    for (std::int64_t c = 0; c < count; ++c) {
      const auto numbers = normalisation(a, (first + c) % a.mean.shape[0]);
      mean[c] = static_cast<C>(numbers[0]);
      scale[c] = static_cast<C>(numbers[1]);
      shift[c] = static_cast<C>(numbers[2]);
    }
  }
};

// Adds the terms of one pixel. Out of line, as in batch_norm_statistics.cpp.
template <bool masks, class T, class C>
[[gnu::noinline]] void add_gradients(std::int64_t count, const T* __restrict x, const T* __restrict gy,
                                     const Lanes<C>& numbers, C* __restrict sum, C* __restrict product) {
  const C* __restrict mean = numbers.mean, * __restrict scale = numbers.scale, * __restrict shift = numbers.shift;
  for (std::int64_t c = 0; c < count; ++c) {
    const auto v = static_cast<C>(x[c]);
    auto g = static_cast<C>(gy[c]);
    if constexpr (masks) g = passed(normalised(mean[c], scale[c], shift[c], v), g);
    sum[c] += g;
    product[c] += g * (v - mean[c]);
  }
}

/// Computes the sums of gy and of gy * (x - mean) over the pixels of a block.
template <bool masks, class T, class C = compute_t<T>>
void gradient_sums_of_block(const BatchNormBackwardArgs& a, const ConstView& x, const ConstView& gy, std::int64_t begin,
                            std::int64_t end, C* sums, C* products) {
  for_each_lane_group(x.shape[1], [&](std::int64_t first, std::int64_t count) {
    const Lanes<C> numbers(a, first, count);
    alignas(64) C sum[detail::chunk], product[detail::chunk];
    std::fill_n(sum, count, C{0});
    std::fill_n(product, count, C{0});
    for_each_pixel<2>({&x, &gy}, begin, end, [&](const auto& at) {
      add_gradients<masks>(count, x.as<T>() + at[0] + first, gy.as<T>() + at[1] + first, numbers, sum, product);
    });
    std::copy_n(sum, count, sums + first);
    std::copy_n(product, count, products + first);
  });
}

template <bool masks, class T>
void gradient_sums_of_planes(const BatchNormBackwardArgs& a, const ConstView& gy, std::int64_t c,
                             double* const totals[2]) {
  using C = compute_t<T>;
  const auto numbers = normalisation(a, c);
  const C mean = static_cast<C>(numbers[0]), scale = static_cast<C>(numbers[1]), shift = static_cast<C>(numbers[2]);
  double sum = 0, product = 0;
  const auto add = [&](const auto& x, const auto& g) {
    sum += static_cast<double>(sum_of(g));
    product += static_cast<double>(sum_of(g * (x - mean)));
  };
  for (std::int64_t n = 0; n < a.x.shape[0]; ++n)
    for_each_piece<T, 2>({&a.x, &gy}, n, c, [&](const auto& x, const auto& g) {
      if constexpr (masks)
        add(x, passed(normalised(mean, scale, shift, x), g));
      else
        add(x, g);
    });
  totals[0][c] = sum;
  totals[1][c] = product;
}

template <bool masks, class T>
void gradient_sums(const BatchNormBackwardArgs& a, const ConstView& gy, const Workspace& ws) {
  const ConstView& x = a.x;
  const std::int64_t channels = x.shape[1];
  if (!channels_adjacent({&x, &gy})) {
    const Scratch<compute_t<T>> to(ws, channels, 1);
    for_each_item(channels, 2 * pixel_count(x),
                  [&](std::int64_t c) { gradient_sums_of_planes<masks, T>(a, gy, c, to.totals); });
    return;
  }
  const std::int64_t fold = folding({&x, &gy});
  const ConstView wide_x = folded(x, fold), wide_gy = folded(gy, fold);
  const Blocks blocks(wide_x);
  const Scratch<compute_t<T>> to(ws, channels, fold);
  for_each_item(blocks.count, blocks.work(), [&](std::int64_t b) {
    gradient_sums_of_block<masks, T>(a, wide_x, wide_gy, blocks.begin(b), blocks.end(b), to.partial(b, 0),
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
}

/// Computes gx from gy and x. In training, slopes and offsets come from the sums.
template <bool masks, class T>
void input_gradient(const BatchNormBackwardArgs& a, const ConstView& gy, const double* const totals[2]) {
  const auto pixels = static_cast<double>(pixel_count(a.x));
  const auto numbers = [&](std::int64_t c) {
    const auto [mean, scale, shift] = normalisation(a, c);
    double slope = 0, offset = 0;
    if (a.training) {
      slope = -scale * totals[1][c] / (pixels * (value(a.var, c) + a.eps));
      offset = -scale * totals[0][c] / pixels;
    }
    return std::array{mean, scale, shift, slope, offset};
  };
  map_channels<T>(
      numbers,
      [](const auto& mean, const auto& scale, [[maybe_unused]] const auto& shift, const auto& slope, const auto& offset,
         const auto& g, const auto& x) {
        if constexpr (masks)
          return passed(normalised(mean, scale, shift, x), g) * scale + (x - mean) * slope + offset;
        else
          return g * scale + (x - mean) * slope + offset;
      },
      a.gx, gy, a.x);
}

}  // namespace

// With r = 1 / sqrt(var + eps) and m pixels: gb = sum(gy), gw = r sum(gy (x - mean)), and in training
// gx = weight r (gy - sum(gy) / m - (x - mean) r^2 sum(gy (x - mean)) / m).
void batch_norm_backward(const BatchNormBackwardArgs& a, const Plan&, Workspace ws) {
  if (a.addend.defined()) arithmetic_kernels().add(a.gy, a.addend, a.masked);
  if (a.y.defined()) pointwise_kernels().relu_backward(a.y, a.addend.defined() ? a.masked : a.gy, a.masked);
  if (a.activation == Activation::gelu_tanh) {
    batch_norm_kernels().batch_norm_apply(
        {a.x, a.weight, a.bias, a.mean, a.var, {}, a.eps, Activation::none, a.masked});
    pointwise_kernels().gelu_tanh_backward(a.masked, a.gy, a.masked);
  }
  const ConstView& gy = a.masked.defined() ? a.masked : a.gy;
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t channels = a.x.shape[1];
    const Scratch<compute_t<T>> sums(ws, channels, 1);
    with_mask(a, [&](auto masks) {
      constexpr bool by_x = decltype(masks)::value;
      if (a.gw.defined() || a.gb.defined() || a.training) gradient_sums<by_x, T>(a, gy, ws);
      if (!a.gx.defined()) return;
      if (a.training || by_x)
        input_gradient<by_x, T>(a, gy, sums.totals);
      else
        map_channels<T>([&](std::int64_t c) { return std::array{normalisation(a, c)[1]}; },
                        [](const auto& scale, const auto& g) { return g * scale; }, a.gx, gy);
    });
    for (std::int64_t c = 0; c < channels && (a.gw.defined() || a.gb.defined()); ++c) {
      set(a.gb, c, sums.totals[0][c]);
      set(a.gw, c, sums.totals[1][c] / std::sqrt(value(a.var, c) + a.eps));
    }
  });
}

}  // namespace bytetape::cpu
