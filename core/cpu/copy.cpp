#include "bytetape/core/cpu/copy.h"

#include <algorithm>
#include <cstring>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/cpu/stretch.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/cpu/transpose.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<From, To> || (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>))
    return static_cast<To>(v);
  else if constexpr (std::is_arithmetic_v<To>)
    return static_cast<To>(static_cast<float>(v));
  else
    return To(static_cast<float>(v));
}

template <class To, class From>
void copy_row(char* y, std::int64_t y_step, const char* x, std::int64_t x_step, std::int64_t n) {
  if (y_step == sizeof(To) && x_step == sizeof(From)) {  // lets the compiler vectorise
    auto* to = reinterpret_cast<To*>(y);
    const auto* from = reinterpret_cast<const From*>(x);
    for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
    return;
  }
  if (y_step == sizeof(To) && x_step == 0) {
    std::fill_n(reinterpret_cast<To*>(y), n, convert<To>(*reinterpret_cast<const From*>(x)));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i)
    *reinterpret_cast<To*>(y + i * y_step) = convert<To>(*reinterpret_cast<const From*>(x + i * x_step));
}

/// Dims of a transposing copy: y is dense along dim `row`, x along dim `column`.
struct Transpose {
  int row = -1, column = -1;
};

// Finds the two dims (of a loop over y and x) that the copy swaps. The result is empty if the copy swaps no dims, or
// only dims shorter than a tile.
Transpose find_transpose(const Loop<2>& w, std::int64_t element) {
  const int last = w.shape.size() - 1;
  if (w.strides[0][last] != element || w.strides[1][last] <= element || w.shape[last] < transpose_tile) return {};
  for (int d = 0; d < last; ++d)
    if (w.strides[1][d] == element && w.shape[d] >= transpose_tile) return {last, d};
  return {};
}

template <class T>
void copy_transposed(const Loop<2>& w, Transpose dims) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t strip = transpose_strip;
  const std::int64_t columns = w.shape[dims.row], rows = w.shape[dims.column];
  const std::int64_t y_step = w.strides[0][dims.column], x_step = w.strides[1][dims.row];
  Loop<2> outer = w;
  outer.shape[dims.row] = outer.shape[dims.column] = 1;
  const std::int64_t strips = (rows + strip - 1) / strip;
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t d = item % strips * strip, at = item / strips;
      walk_rows(outer, at, at + 1, [&](std::int64_t, const auto& p, const auto&) {
        transpose(reinterpret_cast<const T*>(p[1]) + d, x_step / size, reinterpret_cast<T*>(p[0] + d * y_step),
                  y_step / size, std::min(strip, rows - d), columns);
      });
    }
  };
  parallel_for(numel(outer.shape) * strips, std::max<std::int64_t>(grain / (strip * columns), 1), run);
}

template <class To, class From>
void copy_rows(const Loop<2>& w) {
  for_each_row(
      w, [](std::int64_t n, const auto& p, const auto& step) { copy_row<To, From>(p[0], step[0], p[1], step[1], n); });
}

}  // namespace

void copy(const ConstView& x, const View& y) {
  if (numel(y.shape) == 0) return;
  const Loop<2> w = make_loop<2>({&y, &x});
  if (x.dtype == y.dtype) {
    visit(y.dtype, [&](auto zero) {
      using T = decltype(zero);
      const Transpose dims = find_transpose(w, sizeof(T));
      if (dims.row >= 0)
        copy_transposed<T>(w, dims);
      else
        copy_rows<T, T>(w);
    });
    return;
  }
  visit(y.dtype, [&](auto to) { visit(x.dtype, [&](auto from) { copy_rows<decltype(to), decltype(from)>(w); }); });
}

void fill(Scalar value, const View& y) { copy(ConstView::constant(value, y.dtype, y.device, y.shape), y); }

namespace {

void copy_all(std::span<const ConstView> from, std::span<const View> to) {
  for_each_stretch(
      to.size(), [&](std::size_t i) -> const View& { return to[i]; },
      [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        const auto element = static_cast<std::int64_t>(size_of(to[i].dtype));
        std::memcpy(to[i].as<char>() + begin * element, from[i].as<char>() + begin * element,
                    static_cast<std::size_t>((end - begin) * element));
      });
}

void widen_all(std::span<const ConstView> from, std::span<const View> to) {
  for_each_stretch(
      to.size(), [&](std::size_t i) -> const View& { return to[i]; },
      [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        visit_floating(from[i].dtype, [&](auto zero) {
          std::transform(from[i].as<decltype(zero)>() + begin, from[i].as<decltype(zero)>() + end,
                         to[i].as<float>() + begin, convert<float, decltype(zero)>);
        });
      });
}

void arange(Scalar start, Scalar step, const View& y) {
  visit(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = y.as<T>();
    const std::int64_t n = y.numel(), stride = y.strides[0];
    if (start.is_integral() && step.is_integral()) {  // unsigned: products may wrap, sums are in range
      const auto first = static_cast<std::uint64_t>(start.to<std::int64_t>());
      const auto each = static_cast<std::uint64_t>(step.to<std::int64_t>());
      for (std::int64_t i = 0; i < n; ++i)
        to[i * stride] = Scalar(static_cast<std::int64_t>(first + static_cast<std::uint64_t>(i) * each)).to<T>();
    } else
      for (std::int64_t i = 0; i < n; ++i)
        to[i * stride] = Scalar(start.to<double>() + static_cast<double>(i) * step.to<double>()).to<T>();
  });
}

}  // namespace

const CopyKernels& copy_kernels() {
  static const CopyKernels all{
      .fill = fill,
      .copy = copy,
      .copy_all = copy_all,
      .widen_all = widen_all,
      .arange = arange,
  };
  return all;
}

}  // namespace bytetape::cpu
