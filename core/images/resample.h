#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "bytetape/core/kernels/interpolate.h"
#include "bytetape/core/kernels/pool.h"

/// Maps one spatial dim of an image to a dim of another size, for the kernels of all devices.
/// With Windows, AdaptiveWindows or Interpolation, output o is the sum of weight(o, i) x[i] over i in inputs_of(o),
/// divided by divisor(o). outputs_of(i) are the outputs that depend on input i, so that backward can gather too.
namespace bytetape::resample {

struct Range {
  std::int64_t begin, end;
};

/// Returns a / b for non-negative numbers. The 32-bit division is several times faster.
constexpr std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return ((a | b) >> 32) == 0 ? static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b) : a / b;
}
constexpr std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return quotient(a + b - 1, b); }

/// Windows of a fixed size and stride.
struct Windows {
  std::int64_t kernel, stride, padding, inputs, outputs;
  bool counts_padding;  // whether the divisor of a mean counts padding

  constexpr Windows(const Pool2dParams& p, const Shape& x, const Shape& y, int spatial, bool counts_padding = true)
      : kernel(p.kernel[spatial]),
        stride(p.stride[spatial]),
        padding(p.padding[spatial]),
        inputs(x[2 + spatial]),
        outputs(y[2 + spatial]),
        counts_padding(counts_padding) {}

  constexpr std::int64_t start(std::int64_t output) const { return output * stride - padding; }
  /// Returns the positions in an output's window that are not padding.
  constexpr Range window(std::int64_t output) const {
    const std::int64_t at = start(output);
    return {std::max<std::int64_t>(-at, 0), std::min(kernel, inputs - at)};
  }
  /// Advances outputs_of from one input to the next, without a division.
  constexpr void advance(Range& outputs_of, std::int64_t input) const {
    if (outputs_of.begin < outputs && start(outputs_of.begin) + kernel <= input) ++outputs_of.begin;
    if (outputs_of.end < outputs && start(outputs_of.end) <= input) ++outputs_of.end;
  }

  constexpr Range inputs_of(std::int64_t output) const {
    const Range at = window(output);
    return {start(output) + at.begin, start(output) + at.end};
  }
  constexpr Range outputs_of(std::int64_t input) const {
    const std::int64_t last = input + padding, first = last - kernel + 1;
    return {first > 0 ? quotient_up(first, stride) : 0, std::min(quotient(last, stride) + 1, outputs)};
  }
  constexpr int weight(std::int64_t, std::int64_t) const { return 1; }
  constexpr std::int64_t divisor(std::int64_t output) const {
    const Range at = window(output);
    return counts_padding ? kernel : at.end - at.begin;
  }
};

/// Finds the maxima of `count` channels, from c on, in the window of output (h, w), and their positions in the window.
/// NaN wins, and of equal values the first. `x` is a device's image. values_of(pixel)(k) is the value of the
/// pixel's channel c + k.
template <class C, class Position, class Image, class Count, class F>
constexpr void max_of_window(const Windows& rows, const Windows& columns, const Image& x, std::int64_t n,
                             std::int64_t c, std::int64_t h, std::int64_t w, Count count, C* best, Position* at,
                             const F& values_of) {
  const Range is = rows.window(h), js = columns.window(w);
  for (std::int64_t k = 0; k < count; ++k) {
    best[k] = -std::numeric_limits<C>::infinity();
    at[k] = static_cast<Position>(is.begin * columns.kernel + js.begin);
  }
  for (std::int64_t i = is.begin; i < is.end; ++i) {
    auto pixel = x.at(n, c, rows.start(h) + i, columns.start(w) + js.begin);
    auto position = static_cast<Position>(i * columns.kernel + js.begin);
#ifdef __CUDA_ARCH__
#pragma unroll 2
#endif
    for (std::int64_t j = js.begin; j < js.end; ++j, ++position, pixel += x.strides[3]) {
      const auto value = values_of(pixel);
      for (std::int64_t k = 0; k < count; ++k) {
        const C v = value(k);
        const bool wins = (v > best[k]) | (v != v);
        best[k] = wins ? v : best[k];
        at[k] = wins ? position : at[k];
      }
    }
  }
}

/// Windows that cover all inputs. Output o has the inputs from floor(o n / m) to ceil((o + 1) n / m), exclusive.
/// outputs_of is the same with n and m exchanged.
struct AdaptiveWindows {
  std::int64_t inputs, outputs;

  constexpr AdaptiveWindows(const Shape& x, const Shape& y, int spatial)
      : inputs(x[2 + spatial]), outputs(y[2 + spatial]) {}

  constexpr Range inputs_of(std::int64_t output) const { return overlapping(output, outputs, inputs); }
  constexpr Range outputs_of(std::int64_t input) const { return overlapping(input, inputs, outputs); }
  constexpr int weight(std::int64_t, std::int64_t) const { return 1; }
  constexpr std::int64_t divisor(std::int64_t output) const {
    const Range at = inputs_of(output);
    return at.end - at.begin;
  }

 private:
  /// Returns which of m equal parts of a line overlap part i of n equal parts.
  static constexpr Range overlapping(std::int64_t i, std::int64_t n, std::int64_t m) {
    return {quotient(i * m, n), quotient_up((i + 1) * m, n)};
  }
};

/// Interpolation between the two inputs around an output's position, or the input before it ("nearest").
struct Interpolation {
  std::int64_t inputs, outputs;
  double step, inverse;
  bool is_nearest, align_corners;

  constexpr Interpolation(const InterpolateParams& p, const Shape& x, const Shape& y, int spatial)
      : inputs(x[2 + spatial]),
        outputs(y[2 + spatial]),
        step(p.steps[spatial]),
        inverse(step > 0 ? 1 / step : static_cast<double>(outputs)),
        is_nearest(p.mode == InterpolationMode::nearest),
        align_corners(p.align_corners) {}

  constexpr Range inputs_of(std::int64_t output) const {
    const double place = place_of(output);
    const auto first = static_cast<std::int64_t>(place);
    return {first, place > static_cast<double>(first) ? first + 2 : first + 1};
  }
  constexpr Range outputs_of(std::int64_t input) const {
    const auto at = static_cast<double>(input);
    return {first_output(is_nearest ? at : at - 1, [&](double place) { return place > at - 1; }),
            first_output(at + 1, [&](double place) { return place >= at + 1; })};
  }
  constexpr double weight(std::int64_t output, std::int64_t input) const {
    const double distance = place_of(output) - static_cast<double>(input);
    return 1 - (distance < 0 ? -distance : distance);
  }
  constexpr int divisor(std::int64_t) const { return 1; }

 private:
  constexpr double half() const { return is_nearest || align_corners ? 0 : 0.5; }
  /// Returns an output's position between the inputs, in [0, inputs - 1]. For nearest it has PyTorch's bits, in f32.
  constexpr double place_of(std::int64_t output) const {
    const auto last = static_cast<double>(inputs - 1);
    if (is_nearest) {
      const auto at = static_cast<std::int64_t>(static_cast<float>(output) * static_cast<float>(step));
      return std::min(static_cast<double>(at), last);
    }
    const double place = (static_cast<double>(output) + half()) * step - half();
    return std::clamp(place, 0.0, last);
  }
  /// Returns the first output whose position fulfils a condition that holds for all later ones. It is near `place`, up
  /// to rounding.
  template <class P>
  constexpr std::int64_t first_output(double place, P fulfils) const {
    const double guess = (place + half()) * inverse - half();
    auto output = static_cast<std::int64_t>(std::clamp(guess, 0.0, static_cast<double>(outputs)));
    while (output < outputs && !fulfils(place_of(output))) ++output;
    while (output > 0 && fulfils(place_of(output - 1))) --output;
    return output;
  }
};

}  // namespace bytetape::resample
