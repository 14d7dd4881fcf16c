#include "bytetape/core/kernels/elementwise_loss.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

struct Mse {
  template <class C>
  __device__ C operator()(C x, C t) const {
    return (x - t) * (x - t);
  }
};
struct MseBackward {
  template <class C>
  __device__ C operator()(C x, C t, C gy) const {
    return 2 * (x - t) * gy;
  }
};
struct L1 {
  template <class C>
  __device__ C operator()(C x, C t) const {
    return ::fabs(x - t);
  }
};
struct L1Backward {
  template <class C>
  __device__ C operator()(C x, C t, C gy) const {
    const C d = x - t;
    return (d > 0 ? C(1) : d < 0 ? C(-1) : d) * gy;
  }
};
template <class C>
struct Huber {
  C delta;
  __device__ C operator()(C x, C t) const {
    const C distance = ::fabs(x - t);
    return distance > delta ? delta * (distance - delta / 2) : distance * distance / 2;
  }
};
template <class C>
struct HuberBackward {
  C delta;
  __device__ C operator()(C x, C t, C gy) const {
    const C d = x - t;
    return (d > delta ? delta : d < -delta ? -delta : d) * gy;
  }
};
// Uses log(1 + exp(-x)) = log1p(exp(-|x|)) + max(-x, 0), which cannot overflow.
struct BceWithLogits {
  template <class C>
  __device__ C operator()(C x, C t, C p) const {
    const C softplus = ::log1p(::exp(-::fabs(x))) + (x < 0 ? -x : C(0));
    return (1 - t) * x + (1 + (p - 1) * t) * softplus;
  }
};
struct BceWithLogitsBackward {
  template <class C>
  __device__ C operator()(C x, C t, C p, C gy) const {
    return gy * ((1 + (p - 1) * t) / (1 + ::exp(-x)) - p * t);
  }
};

struct KlDiv {
  template <class C>
  __device__ C operator()(C x, C t) const {
    return t == 0 ? C(0) : t * (::log(t) - x);
  }
};
struct KlDivLog {
  template <class C>
  __device__ C operator()(C x, C t) const {
    return ::exp(t) * (t - x);
  }
};

template <class F>
void of_pair(const ConstView& x, const ConstView& t, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(F(), y, x, t);
  });
}
template <class F>
void of_three(const ConstView& x, const ConstView& t, const ConstView& last, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T, T>(F(), y, x, t, last);
  });
}

void huber_loss(double delta, const ConstView& x, const ConstView& t, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T, T>(Huber<C>{static_cast<C>(delta)}, y, x, t);
  });
}
void huber_loss_backward(double delta, const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    elementwise<T, T, T, T>(HuberBackward<C>{static_cast<C>(delta)}, gx, x, t, gy);
  });
}
void bce_with_logits_backward(const ConstView& x, const ConstView& t, const ConstView& p, const ConstView& gy,
                              const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T, T, T>(BceWithLogitsBackward(), gx, x, t, p, gy);
  });
}

}  // namespace

const ElementwiseLossKernels& elementwise_loss_kernels() {
  static const ElementwiseLossKernels all{
      .mse_loss = of_pair<Mse>,
      .l1_loss = of_pair<L1>,
      .huber_loss = huber_loss,
      .bce_with_logits = of_three<BceWithLogits>,
      .kl_div = of_pair<KlDiv>,
      .kl_div_log = of_pair<KlDivLog>,
      .mse_loss_backward = of_three<MseBackward>,
      .l1_loss_backward = of_three<L1Backward>,
      .huber_loss_backward = huber_loss_backward,
      .bce_with_logits_backward = bce_with_logits_backward,
  };
  return all;
}

}  // namespace bytetape::cuda
