#include <cmath>
#include <limits>
#include <numbers>

#include "bytetape/core/cpu/multinomial.h"
#include "bytetape/core/cpu/philox_blocks.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// Fills y with values that make(words, values) computes from a block of words.
template <class T, int words_each, class F>
void generate(const PhiloxState& state, const View& y, const F& make) {
  const auto loop = row_major_loop(y);
  for_each_block<words_each>(state, y.numel(), [&](std::int64_t first, std::int64_t n, const std::uint32_t* words) {
    T values[block_words / words_each];
    make(words, values);
    const T* next = values;
    walk_rows(loop, first, first + n, [&](std::int64_t m, const auto& p, const auto& step) {
      for (std::int64_t i = 0; i < m; ++i) *reinterpret_cast<T*>(p[1] + i * step[1]) = *next++;
    });
  });
}

/// Returns a number in [0, 1): 53 bits of two words for f64, 24 bits of one word for other dtypes.
template <int words_each>
double unit(const std::uint32_t* words) {
  return words_each == 2 ? unit_double(words[0], words[1]) : double{unit_float(*words)};
}
template <class T>
inline constexpr int words_of = sizeof(T) == 8 ? 2 : 1;

template <class T>
T to_float(double v) {
  return static_cast<T>(static_cast<compute_t<T>>(v));
}

void uniform(PhiloxState state, double low, double high, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int each = words_of<T>;
    const T top = uniform_top<T>(low, high);
    generate<T, each>(state, y, [&](const std::uint32_t* words, T* values) {
      for (int i = 0; i < block_words / each; ++i) {
        const T v = to_float<T>(std::fma(unit<each>(words + each * i), high - low, low));
        values[i] = v < top ? v : top;
      }
    });
  });
}

// Elements 2j and 2j + 1 are a pair of Box & Muller, "A note on the generation of random normal deviates", 1958.
void normal(PhiloxState state, double mean, double std, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int each = words_of<T>;
    generate<T, each>(state, y, [&](const std::uint32_t* words, T* values) {
      for (int i = 0; i < block_words / each; i += 2, words += 2 * each) {
        // 1 - u is never 0. All 32 bits of a word are used, because its smallest value limits the tail.
        const double u = each == 2 ? 1 - unit<2>(words) : (words[0] + 1.0) * 0x1p-32;
        const double radius = std * std::sqrt(-2 * std::log(u));
        const double angle = 2 * std::numbers::pi * (each == 2 ? unit<2>(words + 2) : words[1] * 0x1p-32);
        values[i] = to_float<T>(mean + radius * std::cos(angle));
        values[i + 1] = to_float<T>(mean + radius * std::sin(angle));
      }
    });
  });
}

void randint(PhiloxState state, std::int64_t low, std::int64_t high, const View& y) {
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  visit(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    generate<T, 2>(state, y, [&](const std::uint32_t* words, T* values) {
      for (int i = 0; i < block_words / 2; ++i) {
        const auto scaled = static_cast<std::uint64_t>(
            static_cast<unsigned __int128>(bits64(words[2 * i], words[2 * i + 1])) * range >> 64);
        values[i] = Scalar(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + scaled)).to<T>();
      }
    });
  });
}

struct Ticket {
  std::uint64_t key;
  std::int64_t index;
  friend bool operator<(const Ticket& a, const Ticket& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }
};

Plan plan_randperm(const RandpermArgs& a) { return {static_cast<std::size_t>(a.y.numel()) * sizeof(Ticket)}; }

void randperm(const RandpermArgs& a, const Plan&, Workspace ws) {
  const View& y = a.y;
  const std::int64_t n = y.numel();
  auto* tickets = static_cast<Ticket*>(ws.data);
  for_each_block<2>(a.state, n, [&](std::int64_t first, std::int64_t count, const std::uint32_t* words) {
    for (std::int64_t i = 0; i < count; ++i) tickets[first + i] = {bits64(words[2 * i], words[2 * i + 1]), first + i};
  });
  std::sort(tickets, tickets + n);
  auto* out = y.as<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) out[i * y.strides[0]] = tickets[i].index;
}

}  // namespace

const RandomKernels& random_kernels() {
  static const RandomKernels all{
      .uniform = uniform,
      .normal = normal,
      .randint = randint,
      .randperm = {plan_randperm, randperm},
      .multinomial = multinomial,
      .multinomial_race = multinomial_race,
  };
  return all;
}

}  // namespace bytetape::cpu
