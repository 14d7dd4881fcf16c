#include <cmath>
#include <functional>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/integers.h"

namespace bytetape::cpu {
namespace {

template <class Op>
void binary(const ConstView& a, const ConstView& b, const View& y) {
  visit_wrapping(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(Op(), y, a, b);
  });
}

void neg(const ConstView& x, const View& y) {
  visit_wrapping(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T>(std::negate(), y, x);
  });
}

void div(const ConstView& a, const ConstView& b, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      elementwise<T, T, T>(
          [](const auto& a, const auto& b) {
            // -1 apart, as the smallest integer divided by it would trap.
            return a.binaryExpr(b, [](T p, T q) {
              if (q == 0) return T{0};
              if constexpr (std::is_signed_v<T>)
                if (q == -1) return negated(p);
              return static_cast<T>(p / q);
            });
          },
          y, a, b);
    else
      elementwise<T, T, T>([](const auto& a, const auto& b) { return a / b; }, y, a, b);
  });
}

void pow(const ConstView& a, const ConstView& b, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto power = [](C base, C e) {
      if constexpr (std::is_integral_v<C>)
        return integer_pow(base, e);
      else
        return static_cast<C>(std::pow(base, e));
    };
    elementwise<T, T, T>([&](const auto& a, const auto& b) { return a.binaryExpr(b, power); }, y, a, b);
  });
}

}  // namespace

ArithmeticKernels arithmetic_kernels() {
  return {
      .add = binary<std::plus<>>,
      .sub = binary<std::minus<>>,
      .mul = binary<std::multiplies<>>,
      .div = div,
      .pow = pow,
      .neg = neg,
  };
}

}  // namespace bytetape::cpu
