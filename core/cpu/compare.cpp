#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

template <class F>
void compare(const F& f, const ConstView& a, const ConstView& b, const View& y) {
  visit(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<bool, T, T>(f, y, a, b);
  });
}

template <class T>
struct Choose {
  // Arithmetic on bits: a branch would be mispredicted.
  T operator()(bool c, T a, T b) const {
    const T mask = static_cast<T>(-static_cast<T>(c));
    return static_cast<T>((a & mask) | (b & ~mask));
  }
};

// Bits are chosen, not numbers: one loop for each size of element.
template <class T>
void choose(const ConstView& condition, const ConstView& a, const ConstView& b, const View& y) {
  const auto f = [](const auto& c, const auto& a, const auto& b) {
    return Eigen::CwiseTernaryOp<Choose<T>, const std::decay_t<decltype(c)>, const std::decay_t<decltype(a)>,
                                 const std::decay_t<decltype(b)>>(c, a, b);
  };
  elementwise<T, bool, T, T>(f, y, condition, a, b);
}

void eq(const ConstView& a, const ConstView& b, const View& y) {
  compare([](const auto& a, const auto& b) { return a == b; }, a, b, y);
}
void ne(const ConstView& a, const ConstView& b, const View& y) {
  compare([](const auto& a, const auto& b) { return a != b; }, a, b, y);
}
void lt(const ConstView& a, const ConstView& b, const View& y) {
  compare([](const auto& a, const auto& b) { return a < b; }, a, b, y);
}
void le(const ConstView& a, const ConstView& b, const View& y) {
  compare([](const auto& a, const auto& b) { return a <= b; }, a, b, y);
}
void gt(const ConstView& a, const ConstView& b, const View& y) {
  compare([](const auto& a, const auto& b) { return a > b; }, a, b, y);
}
void ge(const ConstView& a, const ConstView& b, const View& y) {
  compare([](const auto& a, const auto& b) { return a >= b; }, a, b, y);
}

void where(const ConstView& condition, const ConstView& a, const ConstView& b, const View& y) {
  switch (size_of(y.dtype)) {
    case 8:
      return choose<std::uint64_t>(condition, a, b, y);
    case 4:
      return choose<std::uint32_t>(condition, a, b, y);
    case 2:
      return choose<std::uint16_t>(condition, a, b, y);
    default:
      return choose<std::uint8_t>(condition, a, b, y);
  }
}

}  // namespace

CompareKernels compare_kernels() {
  return {
      .eq = eq,
      .ne = ne,
      .lt = lt,
      .le = le,
      .gt = gt,
      .ge = ge,
      .where = where,
  };
}

}  // namespace bytetape::cpu
