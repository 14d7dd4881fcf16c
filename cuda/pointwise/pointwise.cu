#include <numbers>

#include "bytetape/core/integers.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/pointwise/gelu.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class C>
__device__ C sigmoid_of(C x) {
  return 1 / (1 + ::exp(-x));  // for large -x, exp overflows to infinity and the quotient is 0
}
/// Returns Phi(x), the distribution function of the standard normal.
template <class C>
__device__ C normal_cdf(C x) {
  return C(0.5) * (1 + ::erf(x * C(std::numbers::sqrt2 / 2)));
}

struct Exp {
  template <class C>
  __device__ C operator()(C x) const {
    return ::exp(x);
  }
};
struct Log {
  template <class C>
  __device__ C operator()(C x) const {
    return ::log(x);
  }
};
struct Sqrt {
  template <class C>
  __device__ C operator()(C x) const {
    return ::sqrt(x);
  }
};
struct Rsqrt {
  template <class C>
  __device__ C operator()(C x) const {
    return 1 / ::sqrt(x);
  }
};
struct Tanh {
  template <class C>
  __device__ C operator()(C x) const {
    return ::tanh(x);
  }
};
struct Sigmoid {
  template <class C>
  __device__ C operator()(C x) const {
    return sigmoid_of(x);
  }
};
struct Relu {
  template <class C>
  __device__ C operator()(C x) const {
    return x < 0 ? C(0) : x;
  }
};
struct Gelu {
  template <class C>
  __device__ C operator()(C x) const {
    return x * normal_cdf(x);
  }
};
struct Silu {
  template <class C>
  __device__ C operator()(C x) const {
    return x / (1 + ::exp(-x));
  }
};
struct Erf {
  template <class C>
  __device__ C operator()(C x) const {
    return ::erf(x);
  }
};
struct Sin {
  template <class C>
  __device__ C operator()(C x) const {
    return ::sin(x);
  }
};
struct Cos {
  template <class C>
  __device__ C operator()(C x) const {
    return ::cos(x);
  }
};
struct Log1p {
  template <class C>
  __device__ C operator()(C x) const {
    return ::log1p(x);
  }
};
struct Expm1 {
  template <class C>
  __device__ C operator()(C x) const {
    return ::expm1(x);
  }
};
struct Floor {
  template <class C>
  __device__ C operator()(C x) const {
    return ::floor(x);
  }
};
struct Ceil {
  template <class C>
  __device__ C operator()(C x) const {
    return ::ceil(x);
  }
};
struct Round {
  template <class C>
  __device__ C operator()(C x) const {
    return ::rint(x);  // halves go to the even neighbour
  }
};
struct Same {
  template <class C>
  __device__ C operator()(C x) const {
    return x;
  }
};
struct Abs {
  template <class C>
  __device__ C operator()(C x) const {
    if constexpr (std::is_floating_point_v<C>)
      return ::fabs(x);
    else if constexpr (std::is_signed_v<C>)
      return x < 0 ? negated(x) : x;
    else
      return x;
  }
};
struct Sign {
  template <class C>
  __device__ C operator()(C x) const {
    return x > 0 ? C(1) : x < 0 ? C(-1) : x;
  }
};
template <class C>
struct Clamp {
  C least, most;
  __device__ C operator()(C x) const { return x < least ? least : x > most ? most : x; }  // NaN stays NaN
};

struct TanhBackward {
  template <class C>
  __device__ C operator()(C y, C gy) const {
    return gy * (1 - y * y);
  }
};
struct SigmoidBackward {
  template <class C>
  __device__ C operator()(C y, C gy) const {
    return gy * (y * (1 - y));
  }
};
struct ReluBackward {
  template <class C>
  __device__ C operator()(C y, C gy) const {
    return y <= 0 ? C(0) : gy;
  }
};
// The slope is Phi(x) + x phi(x).
struct GeluBackward {
  template <class C>
  __device__ C operator()(C x, C gy) const {
    return gy * (normal_cdf(x) + x * ::exp(C(-0.5) * x * x) * C(std::numbers::inv_sqrtpi / std::numbers::sqrt2));
  }
};
// With s = sigmoid(x), the slope is s (1 + x (1 - s)).
struct SiluBackward {
  template <class C>
  __device__ C operator()(C x, C gy) const {
    const C s = sigmoid_of(x);
    return gy * (s * (1 + x * (1 - s)));
  }
};

template <class C>
struct LeakyRelu {
  C slope;
  __device__ C operator()(C x) const { return x > 0 ? x : x * slope; }
  __device__ C operator()(C saved, C gy) const { return saved > 0 ? gy : gy * slope; }  // backward
};

template <class C>
struct Softplus {
  C beta, threshold;
  __device__ C operator()(C x) const {
    const C z = x * beta;
    return z > threshold ? x : ((z > 0 ? z : C(0)) + ::log1p(::exp(-::fabs(z)))) / beta;
  }
  __device__ C operator()(C x, C gy) const {
    return x * beta > threshold ? gy : gy * sigmoid_of(x * beta);
  }  // backward
};

template <class F>
void unary(const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T>(F(), y, x);
  });
}

template <class F>
void backward(const ConstView& saved, const ConstView& gy, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(F(), gx, saved, gy);
  });
}

// As unary() and backward(), for F<T> that depends on the stored type.
template <template <class> class F>
void unary_of_type(const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T>(F<T>(), y, x);
  });
}
template <template <class> class F>
void backward_of_type(const ConstView& saved, const ConstView& gy, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(F<T>(), gx, saved, gy);
  });
}

/// As unary(), for F whose results are whole numbers. Integers are copied.
template <class F>
void whole(const ConstView& x, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T>(std::conditional_t<std::is_integral_v<T>, Same, F>(), y, x);
  });
}

void abs(const ConstView& x, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T>(Abs(), y, x);
  });
}

void clamp(Scalar low, Scalar high, const ConstView& x, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T>(Clamp<C>{low.to<C>(), high.to<C>()}, y, x);
  });
}

void leaky_relu(double slope, const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T>(LeakyRelu<C>{static_cast<C>(slope)}, y, x);
  });
}

void leaky_relu_backward(double slope, const ConstView& saved, const ConstView& gy, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T, T>(LeakyRelu<C>{static_cast<C>(slope)}, gx, saved, gy);
  });
}

void softplus(double beta, double threshold, const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T>(Softplus<C>{static_cast<C>(beta), static_cast<C>(threshold)}, y, x);
  });
}

void softplus_backward(double beta, double threshold, const ConstView& x, const ConstView& gy, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T, T>(Softplus<C>{static_cast<C>(beta), static_cast<C>(threshold)}, gx, x, gy);
  });
}

}  // namespace

const PointwiseKernels& pointwise_kernels() {
  static const PointwiseKernels all{
      .exp = unary<Exp>,
      .log = unary<Log>,
      .sqrt = unary<Sqrt>,
      .rsqrt = unary<Rsqrt>,
      .tanh = unary<Tanh>,
      .sigmoid = unary<Sigmoid>,
      .relu = unary<Relu>,
      .gelu = unary<Gelu>,
      .gelu_tanh = unary_of_type<GeluTanh>,
      .silu = unary<Silu>,
      .erf = unary<Erf>,
      .sin = unary<Sin>,
      .cos = unary<Cos>,
      .log1p = unary<Log1p>,
      .expm1 = unary<Expm1>,
      .floor = whole<Floor>,
      .ceil = whole<Ceil>,
      .round = whole<Round>,
      .abs = abs,
      .sign = unary<Sign>,
      .clamp = clamp,
      .leaky_relu = leaky_relu,
      .softplus = softplus,
      .tanh_backward = backward<TanhBackward>,
      .sigmoid_backward = backward<SigmoidBackward>,
      .relu_backward = backward<ReluBackward>,
      .gelu_backward = backward<GeluBackward>,
      .gelu_tanh_backward = backward_of_type<GeluTanhBackward>,
      .silu_backward = backward<SiluBackward>,
      .softplus_backward = softplus_backward,
      .leaky_relu_backward = leaky_relu_backward,
  };
  return all;
}

}  // namespace bytetape::cuda
