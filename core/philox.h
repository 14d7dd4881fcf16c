#pragma once
#include <array>
#include <cstdint>

#include "bytetape/core/random.h"

namespace bytetape {

/// Philox 4x32-10: four 32-bit words of counter `n` under key `seed`.
inline std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t n) {
  constexpr std::uint32_t m0 = 0xD2511F53, m1 = 0xCD9E8D57, w0 = 0x9E3779B9, w1 = 0xBB67AE85;
  auto c0 = static_cast<std::uint32_t>(n), c1 = static_cast<std::uint32_t>(n >> 32);
  std::uint32_t c2 = 0, c3 = 0;
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{m0} * c0, p1 = std::uint64_t{m1} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += w0;
    k1 += w1;
  }
  return {c0, c1, c2, c3};
}

/// 24 random bits as a float in [0, 1).
inline float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace bytetape
