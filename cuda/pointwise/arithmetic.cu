#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/arithmetic.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

struct Add {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct Subtract {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a - b;
  }
};
struct Multiply {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a * b;
  }
};
struct Divide {
  template <class C>
  __device__ C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<C>)
        if (b == -1) return negated(a);  // avoids overflow: the smallest integer wraps around
    }
    return a / b;
  }
};
struct Negate {
  template <class C>
  __device__ C operator()(C a) const {
    return -a;
  }
};
struct Power {
  template <class C>
  __device__ C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>)
      return integer_pow(a, b);
    else
      return ::pow(a, b);
  }
};

struct Maximum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a < b || a != a ? a : b;
  }
};
struct MaximumBackward {
  template <class C>
  __device__ C operator()(C a, C b, C gy) const {
    return a < b ? C(0) : a == b ? gy / 2 : gy;
  }
};
struct MinimumBackward {
  template <class C>
  __device__ C operator()(C a, C b, C gy) const {
    return a > b ? C(0) : a == b ? gy / 2 : gy;
  }
};

template <class F>
void wrapping(const ConstView& a, const ConstView& b, const View& y) {
  visit_wrapping(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(F(), y, a, b);
  });
}

template <class F>
void binary(const ConstView& a, const ConstView& b, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(F(), y, a, b);
  });
}

template <class F>
void backward(const ConstView& a, const ConstView& b, const ConstView& gy, const View& ga) {
  visit_floating(ga.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T, T>(F(), ga, a, b, gy);
  });
}

void neg(const ConstView& x, const View& y) {
  visit_wrapping(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T>(Negate(), y, x);
  });
}

}  // namespace

const ArithmeticKernels& arithmetic_kernels() {
  static const ArithmeticKernels all{
      .add = wrapping<Add>,
      .sub = wrapping<Subtract>,
      .mul = wrapping<Multiply>,
      .div = binary<Divide>,
      .pow = binary<Power>,
      .maximum = binary<Maximum>,
      .minimum = binary<Minimum>,
      .neg = neg,
      .maximum_backward = backward<MaximumBackward>,
      .minimum_backward = backward<MinimumBackward>,
  };
  return all;
}

}  // namespace bytetape::cuda
