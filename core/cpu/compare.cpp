#include <functional>
#include <limits>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/compare.h"
#include "bytetape/core/visit_bits.h"

namespace bytetape::cpu {
namespace {

template <class Relation>
void compare(const ConstView& a, const ConstView& b, const View& y) {
  visit(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<bool, T, T>(Relation(), y, a, b);
  });
}

template <class X>
auto is_true(const X& x) {
  return x != typename X::Scalar(0);
}
struct LogicalAnd {
  auto operator()(const auto& a, const auto& b) const { return is_true(a) && is_true(b); }
};
struct LogicalOr {
  auto operator()(const auto& a, const auto& b) const { return is_true(a) || is_true(b); }
};
struct LogicalXor {
  auto operator()(const auto& a, const auto& b) const { return is_true(a) != is_true(b); }
};

template <class Property>
void classify(const ConstView& x, const View& y) {
  visit_floating(x.dtype, [&](auto zero) { elementwise<bool, decltype(zero)>(Property(), y, x); });
}
template <class X>
constexpr auto infinity = std::numeric_limits<typename X::Scalar>::infinity();
struct IsNan {
  auto operator()(const auto& x) const { return x != x; }
};
struct IsInf {
  template <class X>
  auto operator()(const X& x) const {
    return x.abs() == infinity<X>;
  }
};
struct IsFinite {
  template <class X>
  auto operator()(const X& x) const {
    return x.abs() < infinity<X>;
  }
};

template <class T>
struct Choose {
  // Bit operations instead of a branch, which would be mispredicted.
  T operator()(bool c, T a, T b) const {
    const T mask = static_cast<T>(-static_cast<T>(c));
    return static_cast<T>((a & mask) | (b & ~mask));
  }
};

// Bits are selected, not numbers, so there is one loop per element size.
template <class T>
void choose(const ConstView& condition, const ConstView& a, const ConstView& b, const View& y) {
  const auto f = [](const auto& c, const auto& a, const auto& b) {
    return Eigen::CwiseTernaryOp<Choose<T>, const std::decay_t<decltype(c)>, const std::decay_t<decltype(a)>,
                                 const std::decay_t<decltype(b)>>(c, a, b);
  };
  elementwise<T, bool, T, T>(f, y, condition, a, b);
}

void where(const ConstView& condition, const ConstView& a, const ConstView& b, const View& y) {
  visit_bits(y.dtype, [&](auto zero) { choose<decltype(zero)>(condition, a, b, y); });
}

}  // namespace

const CompareKernels& compare_kernels() {
  static const CompareKernels all{
      .eq = compare<std::equal_to<>>,
      .ne = compare<std::not_equal_to<>>,
      .lt = compare<std::less<>>,
      .le = compare<std::less_equal<>>,
      .gt = compare<std::greater<>>,
      .ge = compare<std::greater_equal<>>,
      .logical_and = compare<LogicalAnd>,
      .logical_or = compare<LogicalOr>,
      .logical_xor = compare<LogicalXor>,
      .isnan = classify<IsNan>,
      .isinf = classify<IsInf>,
      .isfinite = classify<IsFinite>,
      .where = where,
  };
  return all;
}

}  // namespace bytetape::cpu
