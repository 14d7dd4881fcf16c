#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

template <class T>
Row<T> row_of(const ConstView& logits, std::int64_t i) {
  const auto size = static_cast<std::int64_t>(sizeof(T));
  return {static_cast<const char*>(logits.data()) + i * logits.strides[0] * size, logits.strides[1] * size,
          logits.shape[1]};
}

template <class T>
T& element(const View& v, std::int64_t i) {
  return v.as<T>()[i * v.strides[0]];
}
template <class T>
T element(const ConstView& v, std::int64_t i) {
  return v.as<T>()[i * v.strides[0]];
}

template <class F>
void for_each_sample(const ConstView& logits, F&& f) {
  const std::int64_t classes = std::max<std::int64_t>(logits.shape[1], 1);
  parallel_for(logits.shape[0], std::max<std::int64_t>(exp_grain / classes, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) f(i);
               });
}

// With smoothing s over c classes: (1 - s) (lse - x_t) + s / c sum_j (lse - x_j).
void cross_entropy(const ConstView& logits, const ConstView& target, std::int64_t ignore, double smoothing,
                   const View& losses, const View& lse) {
  visit_floating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto s = static_cast<C>(smoothing);
    for_each_sample(logits, [&](std::int64_t i) {
      const auto t = element<std::int64_t>(target, i);
      const Row<T> x = row_of<T>(logits, i);
      const C shift = x.max(), log_sum = shift + std::log(sum_exp(x, shift));
      element<C>(lse, i) = log_sum;
      C loss = 0;
      if (t != ignore) {
        loss = log_sum - static_cast<C>(*reinterpret_cast<const T*>(x.data + t * x.step));
        if (s > 0) loss = (1 - s) * loss + s * (log_sum - x.sum() / static_cast<C>(x.size));
      }
      element<T>(losses, i) = static_cast<T>(loss);
    });
  });
}

void cross_entropy_backward(const ConstView& logits, const ConstView& target, const ConstView& lse, const ConstView& gy,
                            std::int64_t ignore, double smoothing, const View& gx) {
  visit_floating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto s = static_cast<C>(smoothing), share = s / static_cast<C>(logits.shape[1]);
    const auto size = static_cast<std::int64_t>(sizeof(T));
    for_each_sample(logits, [&](std::int64_t i) {
      const auto t = element<std::int64_t>(target, i);
      const auto g = t == ignore ? C{0} : static_cast<C>(element<T>(gy, i));
      char* to = gx.as<char>() + i * gx.strides[0] * size;
      const std::int64_t step = gx.strides[1] * size;
      ExpPiece<C> exp;
      row_of<T>(logits, i).for_each_piece([&](std::int64_t at, const auto& x) {
        if (t == ignore) return store_piece<T>(to + at * step, step, Array<C>::Zero(x.size()));
        auto p = exp(x, element<C>(lse, i));
        if (t >= at && t < at + x.size()) p[t - at] -= 1 - s;
        store_piece<T>(to + at * step, step, (p - share) * g);
      });
    });
  });
}

void target_range(const ConstView& target, std::int64_t ignore, const View& y) {
  std::int64_t low = 0, high = 0, count = 0;
  for (std::int64_t i = 0; i < target.shape[0]; ++i) {
    const auto t = element<std::int64_t>(target, i);
    if (t == ignore) continue;
    low = count ? std::min(low, t) : t;
    high = count ? std::max(high, t) : t;
    ++count;
  }
  element<std::int64_t>(y, 0) = low;
  element<std::int64_t>(y, 1) = high;
  element<std::int64_t>(y, 2) = count;
}

}  // namespace

LossKernels loss_kernels() {
  return {
      .cross_entropy = cross_entropy,
      .cross_entropy_backward = cross_entropy_backward,
      .target_range = target_range,
  };
}

}  // namespace bytetape::cpu
