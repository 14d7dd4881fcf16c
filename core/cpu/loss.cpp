#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/fault.h"

namespace bytetape::cpu {
namespace {

/// Of f32 and f64: 16-bit logits are widened by the op.
template <class F>
void visit_wide(DType t, F&& f) {
  t == DType::f64 ? f(double{}) : f(float{});
}

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

/// How many targets are not ignored. Throws where one is no class.
std::int64_t count_targets(const ConstView& target, std::int64_t ignore, std::int64_t classes) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < target.shape[0]; ++i) {
    const auto t = element<std::int64_t>(target, i);
    if (t == ignore) continue;
    if (t < 0 || t >= classes) throw_fault({Fault::Kind::target, t, classes});
    ++count;
  }
  return count;
}

Plan plan(const CrossEntropyArgs& a) {
  const bool adds_up = a.reduction != Reduction::none;
  return {adds_up ? static_cast<std::size_t>(a.target.numel()) * size_of(a.logits.dtype) : 0};
}

// With smoothing s over c classes: (1 - s) (lse - x_t) + s / c sum_j (lse - x_j).
void cross_entropy(const CrossEntropyArgs& a, const Plan&, Workspace ws) {
  const std::int64_t n = a.target.shape[0], count = count_targets(a.target, a.ignore, a.logits.shape[1]);
  visit_wide(a.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool adds_up = a.reduction != Reduction::none;
    T* losses = adds_up ? static_cast<T*>(ws.data) : a.y.as<T>();
    const auto s = static_cast<T>(a.smoothing);
    for_each_sample(a.logits, [&](std::int64_t i) {
      const auto t = element<std::int64_t>(a.target, i);
      const Row<T> x = row_of<T>(a.logits, i);
      const T shift = x.max(), log_sum = shift + std::log(sum_exp(x, shift));
      element<T>(a.lse, i) = log_sum;
      T loss = 0;
      if (t != a.ignore) {
        loss = log_sum - *reinterpret_cast<const T*>(x.data + t * x.step);
        if (s > 0) loss = (1 - s) * loss + s * (log_sum - x.sum() / static_cast<T>(x.size));
      }
      losses[i] = loss;
    });
    *a.count.as<T>() = static_cast<T>(count);
    if (!adds_up) return;
    double total = 0;
    for (std::int64_t i = 0; i < n; ++i) total += static_cast<double>(losses[i]);
    *a.y.as<T>() = static_cast<T>(a.reduction == Reduction::mean ? total / static_cast<double>(count) : total);
  });
}

void cross_entropy_backward(const CrossEntropyBackwardArgs& a) {
  visit_wide(a.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto s = static_cast<T>(a.smoothing), share = s / static_cast<T>(a.logits.shape[1]);
    const auto size = static_cast<std::int64_t>(sizeof(T));
    const T count = a.reduction == Reduction::mean ? *a.count.as<T>() : T{1};
    for_each_sample(a.logits, [&](std::int64_t i) {
      const auto t = element<std::int64_t>(a.target, i);
      char* to = a.gx.as<char>() + i * a.gx.strides[0] * size;
      const std::int64_t step = a.gx.strides[1] * size;
      const T g = t == a.ignore ? T{0} : (a.reduction == Reduction::none ? element<T>(a.gy, i) : *a.gy.as<T>()) / count;
      ExpPiece<T> exp;
      row_of<T>(a.logits, i).for_each_piece([&](std::int64_t at, const auto& x) {
        if (t == a.ignore) return store_piece<T>(to + at * step, step, Array<T>::Zero(x.size()));
        auto p = exp(x, element<T>(a.lse, i));
        if (t >= at && t < at + x.size()) p[t - at] -= 1 - s;
        store_piece<T>(to + at * step, step, (p - share) * g);
      });
    });
  });
}

}  // namespace

LossKernels loss_kernels() {
  return {
      .cross_entropy = {plan, cross_entropy},
      .cross_entropy_backward = cross_entropy_backward,
  };
}

}  // namespace bytetape::cpu
