#include <functional>
#include <limits>

#include "bytetape/core/kernels/compare.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class Relation>
void compare(const ConstView& a, const ConstView& b, const View& y) {
  visit(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<bool, T, T>(Relation(), y, a, b);
  });
}

struct LogicalAnd {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a != 0 && b != 0;
  }
};
struct LogicalOr {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a != 0 || b != 0;
  }
};
struct LogicalXor {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return (a != 0) != (b != 0);
  }
};

template <class Property>
void classify(const ConstView& x, const View& y) {
  visit_floating(x.dtype, [&](auto zero) { elementwise<bool, decltype(zero)>(Property(), y, x); });
}
struct IsNan {
  template <class C>
  __device__ bool operator()(C x) const {
    return x != x;
  }
};
struct IsInf {
  template <class C>
  __device__ bool operator()(C x) const {
    return ::fabs(x) == std::numeric_limits<C>::infinity();
  }
};
struct IsFinite {
  template <class C>
  __device__ bool operator()(C x) const {
    return ::fabs(x) < std::numeric_limits<C>::infinity();
  }
};

struct Choose {
  template <class T>
  __device__ T operator()(bool c, T a, T b) const {
    return c ? a : b;
  }
};

// Bits are selected, not numbers, so there is one kernel per element size.
void where(const ConstView& condition, const ConstView& a, const ConstView& b, const View& y) {
  visit_bits(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, bool, T, T>(Choose(), y, condition, a, b);
  });
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

}  // namespace bytetape::cuda
