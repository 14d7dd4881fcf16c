#include <functional>

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

struct Choose {
  template <class T>
  __device__ T operator()(bool c, T a, T b) const {
    return c ? a : b;
  }
};

// Bits are chosen, not numbers: one kernel for each size of element.
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
      .where = where,
  };
  return all;
}

}  // namespace bytetape::cuda
