#include <algorithm>
#include <limits>
#include <type_traits>

#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// Channels taken at once: what is kept for each of them stays in L1.
constexpr std::int64_t lanes = 64;

struct Range {
  std::int64_t begin, end;
};

/// One spatial dim of a pooling.
struct Axis {
  std::int64_t kernel, stride, padding, inputs, outputs;

  std::int64_t start(std::int64_t output) const { return output * stride - padding; }
  /// The positions within an output's window that are no padding.
  Range window(std::int64_t output) const {
    const std::int64_t at = start(output);
    return {std::max<std::int64_t>(-at, 0), std::min(kernel, inputs - at)};
  }
  /// The outputs whose window has the input in it.
  Range covering(std::int64_t input) const {
    const std::int64_t last = input + padding, first = last - kernel + 1;
    return {first > 0 ? (first + stride - 1) / stride : 0, std::min(last / stride + 1, outputs)};
  }
  /// From the outputs of one input to those of the next, without a division.
  void advance(Range& covering, std::int64_t input) const {
    if (covering.begin < outputs && start(covering.begin) + kernel <= input) ++covering.begin;
    if (covering.end < outputs && start(covering.end) <= input) ++covering.end;
  }
};

Axis axis(const Pool2dParams& p, const Shape& x, const Shape& y, int spatial) {
  return {p.kernel[spatial], p.stride[spatial], p.padding[spatial], x[2 + spatial], y[2 + spatial]};
}

/// The channels of one pixel. `dense` puts them side by side at compile time, so that loops over them vectorise.
template <class T, bool dense>
struct Channels {
  T* data;
  std::int64_t step;
  T& operator[](std::int64_t c) const { return data[dense ? c : c * step]; }
};

template <class T, bool dense>
struct Image {
  T* data;
  Strides strides;
  Channels<T, dense> at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return {data + n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3], strides[1]};
  }
};

template <class T, bool dense, class V>
Image<T, dense> image(const V& v) {
  return {v.template as<T>(), v.strides};
}

/// Positions in a window as wide as what they are chosen by: comparisons and choices then share vector lanes.
template <class C>
using position_t = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;

/// f(n, h, c, count) for every row of v's pixels and every `lanes` channels, in parallel. A pixel costs `work`.
template <class F>
void for_each_strip(const ConstView& v, std::int64_t work, F&& f) {
  const std::int64_t channels = v.shape[1], height = v.shape[2], row = channels * v.shape[3] * work;
  parallel_for(v.shape[0] * height, grain / std::max<std::int64_t>(row, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t c = 0; c < channels; c += lanes) f(i / height, i % height, c, std::min(lanes, channels - c));
  });
}

/// f(element, index, dense): of the types of x and of the indices; dense where every view has its channels side by
/// side.
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

bool adjacent(const ConstView& v) { return v.strides[1] == 1; }

void max_pool2d(const ConstView& x, const Pool2dParams& p, const View& y, const View& indices) {
  const bool keeps = indices.defined();
  const Axis rows = axis(p, x.shape, y.shape, 0), columns = axis(p, x.shape, y.shape, 1);
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
      const Range is = rows.window(h);
      for (std::int64_t w = 0; w < columns.outputs; ++w) {
        const Range js = columns.window(w);
        for (std::int64_t k = 0; k < count; ++k) {
          best[k] = -std::numeric_limits<C>::infinity();
          at[k] = static_cast<Position>(is.begin * columns.kernel + js.begin);
        }
        for (std::int64_t i = is.begin; i < is.end; ++i)
          for (std::int64_t j = js.begin; j < js.end; ++j) {
            const auto values = from.at(n, c, rows.start(h) + i, columns.start(w) + j);
            const auto position = static_cast<Position>(i * columns.kernel + j);
            for (std::int64_t k = 0; k < count; ++k) {
              const auto v = static_cast<C>(values[k]);
              const bool wins = (v > best[k]) | (v != v);
              best[k] = wins ? v : best[k];
              at[k] = wins ? position : at[k];
            }
          }
        const auto result = to.at(n, c, h, w);
        for (std::int64_t k = 0; k < count; ++k) result[k] = static_cast<T>(best[k]);
        if (!keeps) continue;
        const auto positions = chosen.at(n, c, h, w);
        for (std::int64_t k = 0; k < count; ++k) positions[k] = static_cast<decltype(index)>(at[k]);
      }
    });
  });
}

// Asks for each input which windows chose it: every element is written once, by one thread, whether windows overlap or
// not.
void max_pool2d_backward(const ConstView& gy, const ConstView& indices, const Pool2dParams& p, const View& gx) {
  const Axis rows = axis(p, gx.shape, gy.shape, 0), columns = axis(p, gx.shape, gy.shape, 1);
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
      const Range above = rows.covering(h);
      Range beside = columns.covering(0);
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
        if (above.end - above.begin == 1 && beside.end - beside.begin == 1) {  // the usual case: no overlap
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
  const Axis rows = axis(p, x.shape, y.shape, 0), columns = axis(p, x.shape, y.shape, 1);
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
          result[k] = from.at(n, c + k, rows.start(h) + i, columns.start(w) + j)[0];
        }
      }
    });
  });
}

}  // namespace

PoolKernels pool_kernels() {
  return {
      .max_pool2d = max_pool2d,
      .max_pool2d_backward = max_pool2d_backward,
      .max_pool2d_gather = max_pool2d_gather,
  };
}

}  // namespace bytetape::cpu
