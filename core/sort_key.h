#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "bytetape/core/visit.h"

namespace bytetape {

/// Returns a number below 2^(bits of T) whose order is that of v. -0 and 0 are equal. All NaNs are equal and largest.
/// On host and device.
template <class T>
constexpr std::uint64_t sort_key(T v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v;
  } else if constexpr (std::is_unsigned_v<T>) {
    return v;
  } else {
    using Bits = std::conditional_t<
        sizeof(T) == 8, std::uint64_t,
        std::conditional_t<sizeof(T) == 4, std::uint32_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, void>>>;
    constexpr std::uint64_t sign = std::uint64_t{1} << (8 * sizeof(T) - 1), all = sign | (sign - 1);
    const std::uint64_t bits = std::bit_cast<Bits>(v);
    if constexpr (std::is_integral_v<T>) {
      return bits ^ sign;
    } else {
      constexpr std::uint64_t infinity =
          std::bit_cast<Bits>(static_cast<T>(std::numeric_limits<compute_t<T>>::infinity()));
      const std::uint64_t magnitude = bits & (sign - 1);
      if (magnitude > infinity) return all;
      if (magnitude == 0) return sign;
      return bits & sign ? bits ^ all : bits | sign;
    }
  }
}
/// The same, in descending order if asked.
template <class T>
constexpr std::uint64_t sort_key(T v, bool descending) {
  constexpr std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * sizeof(T));
  return descending ? sort_key(v) ^ all : sort_key(v);
}

/// The key and the index of an element of a row. Tickets of a row are distinct, so every way to sort them gives the
/// same order, in which equal elements keep theirs. All ones is last.
struct WideTicket {
  std::uint64_t key;
  std::int64_t at;

  static constexpr WideTicket of(std::uint64_t key, std::int64_t at) { return {key, at}; }
  static constexpr WideTicket last() { return {~std::uint64_t{0}, std::numeric_limits<std::int64_t>::max()}; }
  constexpr std::int64_t index() const { return at; }
  constexpr bool operator<(const WideTicket& o) const { return key != o.key ? key < o.key : at < o.at; }
};
/// The same in one word, for keys of 32 bits and indices below 2^32 - 1.
struct PackedTicket {
  std::uint64_t bits;

  static constexpr PackedTicket of(std::uint64_t key, std::int64_t at) {
    return {key << 32 | static_cast<std::uint64_t>(at)};
  }
  static constexpr PackedTicket last() { return {~std::uint64_t{0}}; }
  constexpr std::int64_t index() const { return static_cast<std::int64_t>(bits & 0xFFFFFFFF); }
  constexpr bool operator<(const PackedTicket& o) const { return bits < o.bits; }
};

}  // namespace bytetape
