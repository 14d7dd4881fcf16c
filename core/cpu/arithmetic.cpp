#include <cmath>
#include <functional>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/arithmetic.h"

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
            // -1 is a case of its own, because dividing the smallest integer by -1 traps.
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

struct Greater {
  static bool before(auto p, auto q) { return p > q; }
};
struct Less {
  static bool before(auto p, auto q) { return p < q; }
};

/// Computes the operand that comes first by Order.
template <class Order>
void first_of(const ConstView& a, const ConstView& b, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto choose = [](C p, C q) { return Order::before(p, q) || p != p ? p : q; };
    elementwise<T, T, T>([&](const auto& a, const auto& b) { return a.binaryExpr(b, choose); }, y, a, b);
  });
}

/// Computes a's part of gy: none if b came first.
template <class Order, class C>
struct ShareOfFirst {
  C operator()(C a, C b, C gy) const { return Order::before(b, a) ? C{0} : a == b ? gy / 2 : gy; }
};
template <class Order>
void first_of_backward(const ConstView& a, const ConstView& b, const ConstView& gy, const View& ga) {
  visit_floating(ga.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto share = [](const auto& a, const auto& b, const auto& gy) {
      return Eigen::CwiseTernaryOp<ShareOfFirst<Order, compute_t<T>>, const std::decay_t<decltype(a)>,
                                   const std::decay_t<decltype(b)>, const std::decay_t<decltype(gy)>>(a, b, gy);
    };
    elementwise<T, T, T, T>(share, ga, a, b, gy);
  });
}

}  // namespace

const ArithmeticKernels& arithmetic_kernels() {
  static const ArithmeticKernels all{
      .add = binary<std::plus<>>,
      .sub = binary<std::minus<>>,
      .mul = binary<std::multiplies<>>,
      .div = div,
      .pow = pow,
      .maximum = first_of<Greater>,
      .minimum = first_of<Less>,
      .neg = neg,
      .maximum_backward = first_of_backward<Greater>,
      .minimum_backward = first_of_backward<Less>,
  };
  return all;
}

}  // namespace bytetape::cpu
