#include "bytetape/core/cpu/random.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/philox.h"

namespace bytetape::cpu {
namespace {

constexpr int block_counters = 64;  // drawn at a time: enough for the compiler to vectorise philox()
constexpr std::int64_t block_words = 4 * block_counters;

/// Words [256 b, 256 (b + 1)) after `state`.
void draw_block(const PhiloxState& state, std::int64_t b, std::uint32_t* words) {
  alignas(64) std::uint32_t drawn[4][block_counters];
  philox(state.seed, state.offset + static_cast<std::uint64_t>(b) * block_counters, drawn);
  for (int i = 0; i < block_counters; ++i)
    for (int w = 0; w < 4; ++w) words[4 * i + w] = drawn[w][i];
}

/// f(first element, count, words) for each block of elements that take words_each words each, in parallel.
template <int words_each, class F>
void for_each_block(const PhiloxState& state, std::int64_t n, const F& f) {
  constexpr std::int64_t size = block_words / words_each;
  parallel_for((n + size - 1) / size, grain / 4 / size, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::uint32_t words[block_words];
    for (std::int64_t b = begin; b < end; ++b) {
      draw_block(state, b, words);
      f(b * size, std::min(size, n - b * size), words);
    }
  });
}

/// The walk over y and others whose element number i is number i of the row-major order, whatever the strides.
template <class... X>
auto row_major_walk(const View& y, const X&... others) {
  const ConstView order(y.data(), DType::u8, y.device, y.shape, contiguous_strides(y.shape));  // leads, never read
  return make_walk<sizeof...(X) + 2>({&order, &y, &others...});
}

/// y = values that make(words, values) turns a whole block of words into.
template <class T, int words_each, class F>
void generate(const PhiloxState& state, const View& y, const F& make) {
  const auto walk = row_major_walk(y);
  for_each_block<words_each>(state, y.numel(), [&](std::int64_t first, std::int64_t n, const std::uint32_t* words) {
    T values[block_words / words_each];
    make(words, values);
    const T* next = values;
    walk_rows(walk, first, first + n, [&](std::int64_t m, const auto& p, const auto& step) {
      for (std::int64_t i = 0; i < m; ++i) *reinterpret_cast<T*>(p[1] + i * step[1]) = *next++;
    });
  });
}

std::uint64_t bits64(const std::uint32_t* words) { return words[0] | std::uint64_t{words[1]} << 32; }

/// A number in [0, 1) from as many words as the dtype takes: 53 bits of two for f64, 24 bits of one for the others.
template <int words_each>
double unit(const std::uint32_t* words) {
  return words_each == 2 ? static_cast<double>(bits64(words) >> 11) * 0x1p-53 : double{unit_float(*words)};
}
template <class T>
inline constexpr int words_of = sizeof(T) == 8 ? 2 : 1;

template <class T>
T next_below(T v) {
  if constexpr (std::is_floating_point_v<T>)
    return std::nextafter(v, -std::numeric_limits<T>::infinity());
  else {
    constexpr std::uint16_t sign = 0x8000;
    const bool zero = (v.bits & ~sign) == 0;
    v.bits = static_cast<std::uint16_t>(zero ? sign | 1 : v.bits & sign ? v.bits + 1 : v.bits - 1);
    return v;
  }
}

template <class T>
T to_float(double v) {
  return static_cast<T>(static_cast<compute_t<T>>(v));
}

}  // namespace

void uniform(PhiloxState state, double low, double high, View y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int each = words_of<T>;
    // Rounding may reach high, which the interval leaves out.
    T top = to_float<T>(high);
    if (double{top} >= high) top = next_below(top);
    if (double{top} < low) top = to_float<T>(low);
    generate<T, each>(state, y, [&](const std::uint32_t* words, T* values) {
      for (int i = 0; i < block_words / each; ++i) {
        const T v = to_float<T>(std::fma(unit<each>(words + each * i), high - low, low));
        values[i] = v < top ? v : top;
      }
    });
  });
}

// Elements 2j and 2j + 1 are one pair of Box & Muller, "A note on the generation of random normal deviates", 1958.
void normal(PhiloxState state, double mean, double std, View y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int each = words_of<T>;
    generate<T, each>(state, y, [&](const std::uint32_t* words, T* values) {
      for (int i = 0; i < block_words / each; i += 2, words += 2 * each) {
        // 1 - u is never 0; a 32-bit word is used whole, for its smallest value sets how far out the tail reaches
        const double u = each == 2 ? 1 - unit<2>(words) : (words[0] + 1.0) * 0x1p-32;
        const double radius = std * std::sqrt(-2 * std::log(u));
        const double angle = 2 * std::numbers::pi * (each == 2 ? unit<2>(words + 2) : words[1] * 0x1p-32);
        values[i] = to_float<T>(mean + radius * std::cos(angle));
        values[i + 1] = to_float<T>(mean + radius * std::sin(angle));
      }
    });
  });
}

void randint(PhiloxState state, std::int64_t low, std::int64_t high, View y) {
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  visit(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    generate<T, 2>(state, y, [&](const std::uint32_t* words, T* values) {
      for (int i = 0; i < block_words / 2; ++i) {
        const auto scaled =
            static_cast<std::uint64_t>(static_cast<unsigned __int128>(bits64(words + 2 * i)) * range >> 64);
        values[i] = Scalar(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + scaled)).to<T>();
      }
    });
  });
}

namespace {

struct Ticket {
  std::uint64_t key;
  std::int64_t index;
  friend bool operator<(const Ticket& a, const Ticket& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }
};

}  // namespace

std::size_t randperm_workspace(View y) { return static_cast<std::size_t>(y.numel()) * sizeof(Ticket); }

void randperm(PhiloxState state, View y, Workspace ws) {
  const std::int64_t n = y.numel();
  auto* tickets = static_cast<Ticket*>(ws.data);
  for_each_block<2>(state, n, [&](std::int64_t first, std::int64_t count, const std::uint32_t* words) {
    for (std::int64_t i = 0; i < count; ++i) tickets[first + i] = {bits64(words + 2 * i), first + i};
  });
  std::sort(tickets, tickets + n);
  auto* out = y.as<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) out[i * y.strides[0]] = tickets[i].index;
}

namespace {

/// Chooses on bits, without a branch: which way it goes cannot be predicted.
template <class T>
struct Dropout {
  using C = compute_t<T>;
  std::uint32_t threshold;  // unit_float(word) >= p, in integers
  C scale;

  explicit Dropout(double p)
      : threshold(static_cast<std::uint32_t>(std::ceil(p * 0x1p24))), scale(static_cast<C>(1 / (1 - p))) {}

  T operator()(std::uint32_t word, T x) const {
    const C kept = static_cast<C>(x) * scale;
    return static_cast<T>(word >> 8 >= threshold ? kept : C{0});
  }

  void row(const std::uint32_t* words, std::int64_t n, char* y, std::int64_t y_step, const char* x,
           std::int64_t x_step) const {
    const Dropout f = *this;
    if (y_step == sizeof(T) && x_step == sizeof(T)) {  // lets the compiler vectorise
      auto* to = reinterpret_cast<T*>(y);
      const auto* from = reinterpret_cast<const T*>(x);
      for (std::int64_t i = 0; i < n; ++i) to[i] = f(words[i], from[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        *reinterpret_cast<T*>(y + i * y_step) = f(words[i], *reinterpret_cast<const T*>(x + i * x_step));
    }
  }
};

}  // namespace

void dropout(PhiloxState state, double p, ConstView x, View y) {
  visit_floating(y.dtype, [&](auto zero) {
    const Dropout<decltype(zero)> f(p);
    const auto walk = row_major_walk(y, x);
    for_each_block<1>(state, y.numel(), [&](std::int64_t first, std::int64_t n, const std::uint32_t* words) {
      walk_rows(walk, first, first + n, [&](std::int64_t m, const auto& at, const auto& step) {
        f.row(words, m, at[1], step[1], at[2], step[2]);
        words += m;
      });
    });
  });
}

}  // namespace bytetape::cpu
