#pragma once
#include <ostream>
#include <type_traits>

namespace bytetape {

/// Factors of (height, width). One number sets both.
struct Scale2 {
  double h = 0, w = 0;

  template <class N>
  requires std::is_arithmetic_v<N>
  constexpr Scale2(N both) : Scale2(static_cast<double>(both), static_cast<double>(both)) {}
  constexpr Scale2(double h, double w) : h(h), w(w) {}

  /// Element 0 is the height's factor, and 1 the width's, as in the order of dims.
  constexpr double operator[](int i) const { return i == 0 ? h : w; }

  friend bool operator==(const Scale2&, const Scale2&) = default;
  friend std::ostream& operator<<(std::ostream& out, Scale2 s) { return out << '(' << s.h << ", " << s.w << ')'; }
};

}  // namespace bytetape
