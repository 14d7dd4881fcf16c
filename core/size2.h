#pragma once
#include <concepts>
#include <cstdint>
#include <ostream>

namespace bytetape {

/// A (height, width) pair. One number sets both.
struct Size2 {
  std::int64_t h = 0, w = 0;

  constexpr Size2(std::integral auto both) : Size2(static_cast<std::int64_t>(both), static_cast<std::int64_t>(both)) {}
  constexpr Size2(std::int64_t h, std::int64_t w) : h(h), w(w) {}

  /// Element 0 is the height, and 1 the width, as in the order of dims.
  constexpr std::int64_t& operator[](int i) { return i == 0 ? h : w; }
  constexpr std::int64_t operator[](int i) const { return i == 0 ? h : w; }

  friend bool operator==(const Size2&, const Size2&) = default;
  friend std::ostream& operator<<(std::ostream& out, Size2 s) { return out << '(' << s.h << ", " << s.w << ')'; }
};

}  // namespace bytetape
