#include "bytetape/core/kernels/dropout.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/philox_blocks.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// Selects without a branch, because the outcome cannot be predicted.
template <class T>
struct Dropout {
  using C = compute_t<T>;
  std::uint32_t threshold;
  C scale;

  explicit Dropout(double p) : threshold(dropout_threshold(p)), scale(static_cast<C>(1 / (1 - p))) {}

  T operator()(std::uint32_t word, T x) const {
    const C kept = static_cast<C>(x) * scale;
    return static_cast<T>(dropout_keeps(word, threshold) ? kept : C{0});
  }

  /// Drops n adjacent elements.
  void row(const std::uint32_t* words, std::int64_t n, char* y, const char* x) const {
    const Dropout f = *this;
    auto* to = reinterpret_cast<T*>(y);
    const auto* from = reinterpret_cast<const T*>(x);
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(words[i], from[i]);
  }
  /// Drops n elements. Steps are in bytes.
  void row(const std::uint32_t* words, std::int64_t n, char* y, std::int64_t y_step, const char* x,
           std::int64_t x_step) const {
    if (x_step == sizeof(T) && y_step == sizeof(T)) return row(words, n, y, x);  // which vectorises
    const Dropout f = *this;
    for (std::int64_t i = 0; i < n; ++i)
      *reinterpret_cast<T*>(y + i * y_step) = f(words[i], *reinterpret_cast<const T*>(x + i * x_step));
  }
};

/// Goes through the elements in row-major order.
void drop(const DropoutArgs& a, const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    const Dropout<decltype(zero)> f(a.p);
    const auto loop = row_major_loop(y, x);
    for_each_block<1>(a.state, y.numel(), [&](std::int64_t first, std::int64_t n, const std::uint32_t* words) {
      walk_rows(loop, first, first + n, [&](std::int64_t m, const auto& at, const auto& step) {
        f.row(words, m, at[1], step[1], at[2], step[2]);
        words += m;
      });
    });
  });
}

/// Whether channels-last images have rows that are whole Philox counters. The four words of a counter belong to four
/// pixels of one channel. Counters of neighbouring channels, drawn together, then fill four contiguous runs.
bool draws_across_channels(const DropoutArgs& a) {
  return a.y.rank() == 4 && a.y.shape[3] % 4 == 0 && a.y.strides[1] == 1 && a.x.strides[1] == 1 && a.y.shape[1] > 1;
}

void drop_across_channels(const DropoutArgs& a) {
  const ConstView &x = a.x, &y = a.y;
  const std::int64_t channels = y.shape[1], height = y.shape[2], fours = y.shape[3] / 4;
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr std::int64_t size = sizeof(T);
    const Dropout<T> f(a.p);
    parallel_for(y.shape[0] * height * fours, grain / 16 / channels, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::uint32_t words[4][block_counters];
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t w = i % fours * 4, h = i / fours % height, n = i / fours / height;
        for (std::int64_t c = 0; c < channels; c += block_counters) {
          const std::int64_t counter = ((n * channels + c) * height + h) * fours + w / 4;
          philox(a.state.seed, a.state.offset + static_cast<std::uint64_t>(counter), words,
                 static_cast<std::uint64_t>(height * fours));
          for (std::int64_t k = 0; k < 4; ++k) {
            const auto at = [&](const ConstView& v) {
              const Strides& s = v.strides;
              return static_cast<char*>(const_cast<void*>(v.data())) +
                     (n * s[0] + c + h * s[2] + (w + k) * s[3]) * size;
            };
            f.row(words[k], std::min<std::int64_t>(block_counters, channels - c), at(y), at(x));
          }
        }
      }
    });
  });
}

// Random numbers are counted in row-major order. If neither x nor y has it, two transposing copies cost less than
// drawing in the layout's order.
Plan plan(const DropoutArgs& a) {
  const bool is_direct = a.x.is_contiguous() || a.y.is_contiguous() || draws_across_channels(a);
  return {is_direct ? 0 : static_cast<std::size_t>(a.y.numel()) * size_of(a.y.dtype)};
}

void dropout(const DropoutArgs& a, const Plan& plan, Workspace ws) {
  if (a.y.numel() == 0) return;
  if (draws_across_channels(a)) return drop_across_channels(a);
  if (plan.workspace == 0) return drop(a, a.x, a.y);
  const View rows(ws.data, a.y.dtype, a.y.device, a.y.shape, contiguous_strides(a.y.shape));
  copy(a.x, rows);
  drop(a, rows, rows);
  copy(rows, a.y);
}

}  // namespace

const DropoutKernels& dropout_kernels() {
  static const DropoutKernels all{.dropout = {plan, dropout}};
  return all;
}

}  // namespace bytetape::cpu
