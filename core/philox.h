#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "bytetape/core/random.h"
#include "bytetape/core/visit.h"

namespace bytetape {

/// Computes Philox 4x32-10: word w of counter `n + i * step` under key `seed` goes to words[w][i].
template <int lanes>
constexpr void philox(std::uint64_t seed, std::uint64_t n, std::uint32_t (&words)[4][lanes], std::uint64_t step = 1) {
  constexpr std::uint32_t m0 = 0xD2511F53, m1 = 0xCD9E8D57, w0 = 0x9E3779B9, w1 = 0xBB67AE85;
  auto& [c0, c1, c2, c3] = words;
  for (int i = 0; i < lanes; ++i) {
    const std::uint64_t counter = n + static_cast<std::uint64_t>(i) * step;
    c0[i] = static_cast<std::uint32_t>(counter), c1[i] = static_cast<std::uint32_t>(counter >> 32);
    c2[i] = c3[i] = 0;
  }
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += w0, k1 += w1)
    for (int i = 0; i < lanes; ++i) {
      const std::uint64_t p0 = std::uint64_t{m0} * c0[i], p1 = std::uint64_t{m1} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<std::uint32_t>(p1);
      c3[i] = static_cast<std::uint32_t>(p0);
    }
}

/// Returns the four words of counter `n`.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t n) {
  std::uint32_t words[4][1] = {};
  philox(seed, n, words);
  return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

/// Returns the state to draw from. In a captured step, `s` is relative to `start`.
constexpr PhiloxState started(const PhiloxState& s) {
  return s.start ? PhiloxState{s.start->seed, s.start->offset + s.offset} : s;
}

/// Joins two words.
constexpr std::uint64_t bits64(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }
/// Converts 24 random bits to a float in [0, 1).
constexpr float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
/// Converts 53 random bits to a double in [0, 1).
constexpr double unit_double(std::uint32_t low, std::uint32_t high) {
  return static_cast<double>(bits64(low, high) >> 11) * 0x1p-53;
}

/// Returns the largest T that a uniform number in [low, high) may be. Rounding could otherwise reach high.
template <class T>
T uniform_top(double low, double high) {
  const auto rounded = [](double v) { return static_cast<T>(static_cast<compute_t<T>>(v)); };
  T top = rounded(high);
  if (double{top} >= high) {
    if constexpr (std::is_floating_point_v<T>) {
      top = std::nextafter(top, -std::numeric_limits<T>::infinity());
    } else {
      constexpr std::uint16_t sign = 0x8000;
      const bool zero = (top.bits & ~sign) == 0;
      top.bits = static_cast<std::uint16_t>(zero ? sign | 1 : top.bits & sign ? top.bits + 1 : top.bits - 1);
    }
  }
  return double{top} < low ? rounded(low) : top;
}

/// Returns the integer threshold of dropout with probability p. Dropout keeps an element if unit_float(word) >= p,
/// which is dropout_keeps(word, dropout_threshold(p)). Integers make it the same on every device.
constexpr std::uint32_t dropout_threshold(double p) {  // p * 2^24, rounded up
  const auto whole = static_cast<std::uint32_t>(p * 0x1p24);
  return whole + (whole < p * 0x1p24 ? 1 : 0);
}
constexpr bool dropout_keeps(std::uint32_t word, std::uint32_t threshold) { return word >> 8 >= threshold; }

}  // namespace bytetape
