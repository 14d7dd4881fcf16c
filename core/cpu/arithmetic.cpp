#include "bytetape/core/cpu/arithmetic.h"

#include <cmath>

#include "bytetape/core/cpu/elementwise.h"

namespace bytetape::cpu {
namespace {

template <class F>
void binary(const F& f, const ConstView& a, const ConstView& b, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(f, y, a, b);
  });
}

}  // namespace

void add(ConstView a, ConstView b, View y) {
  binary([](const auto& a, const auto& b) { return a + b; }, a, b, y);
}
void sub(ConstView a, ConstView b, View y) {
  binary([](const auto& a, const auto& b) { return a - b; }, a, b, y);
}
void mul(ConstView a, ConstView b, View y) {
  binary([](const auto& a, const auto& b) { return a * b; }, a, b, y);
}

void div(ConstView a, ConstView b, View y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      elementwise<T, T, T>(
          [](const auto& a, const auto& b) {
            // -1 apart, as the smallest integer divided by it would trap.
            return a.binaryExpr(b, [](T p, T q) {
              if (q == 0) return T{0};
              if constexpr (std::is_signed_v<T>)
                if (q == -1)
                  return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(p));
              return static_cast<T>(p / q);
            });
          },
          y, a, b);
    else
      elementwise<T, T, T>([](const auto& a, const auto& b) { return a / b; }, y, a, b);
  });
}

void pow(ConstView a, ConstView b, View y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T, T>(
        [](const auto& a, const auto& b) {
          return a.binaryExpr(b, [](C base, C e) { return static_cast<C>(std::pow(base, e)); });
        },
        y, a, b);
  });
}

void neg(ConstView x, View y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T>([](const auto& x) { return -x; }, y, x);
  });
}

}  // namespace bytetape::cpu
