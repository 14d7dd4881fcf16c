#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/fault.h"

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

/// The weight of each class. 1 if weights are undefined.
template <class T>
struct Weights {
  ConstView of_class;
  bool defined() const { return of_class.defined(); }
  T operator[](std::int64_t c) const { return defined() ? element<T>(of_class, c) : T{1}; }
};

/// Returns the total weight of targets that are not ignored. Throws a fault if a target is not a class.
template <class T>
double count_targets(const ConstView& target, std::int64_t ignore, std::int64_t classes, const Weights<T>& weights) {
  double count = 0;
  for (std::int64_t i = 0; i < target.shape[0]; ++i) {
    const auto t = element<std::int64_t>(target, i);
    if (t == ignore) continue;
    if (t < 0 || t >= classes) throw_fault({Fault::Kind::target, t, classes});
    count += static_cast<double>(weights[t]);
  }
  return count;
}

/// Returns sum_j w_j (lse - x_j) / c. `total` is the sum of the weights, if they are defined.
template <class T, class C = compute_t<T>>
C smooth_loss(const Row<T>& x, C lse, const Weights<C>& weights, C total) {
  const auto c = static_cast<C>(x.size);
  if (!weights.defined()) return lse - x.sum() / c;
  double sum = 0;
  x.for_each_piece([&](std::int64_t at, const auto& piece) {
    for (std::int64_t j = 0; j < piece.size(); ++j) sum += static_cast<double>(weights[at + j] * piece[j]);
  });
  return (total * lse - static_cast<C>(sum)) / c;
}

Plan plan(const CrossEntropyArgs& a) {
  const bool adds_up = a.reduction != Reduction::none;
  return {adds_up ? static_cast<std::size_t>(a.target.numel()) * size_of(a.y.dtype) : 0};
}

// With smoothing s over c classes: (1 - s) w_t (lse - x_t) + s / c sum_j w_j (lse - x_j).
void cross_entropy(const CrossEntropyArgs& a, const Plan&, Workspace ws) {
  const std::int64_t n = a.target.shape[0], classes = a.logits.shape[1];
  visit_floating(a.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Weights<C> weights{a.weight};
    const double count = count_targets(a.target, a.ignore, classes, weights);
    const bool adds_up = a.reduction != Reduction::none, takes_logits = a.lse.defined();
    C* losses = adds_up ? static_cast<C*>(ws.data) : a.y.as<C>();
    const auto s = static_cast<C>(a.smoothing);
    const C total = a.total.defined() ? *a.total.as<C>() : C{0};
    for_each_sample(a.logits, [&](std::int64_t i) {
      const auto t = element<std::int64_t>(a.target, i);
      const Row<T> x = row_of<T>(a.logits, i);
      C log_sum = 0;
      if (takes_logits) {
        const C shift = x.max();
        element<C>(a.lse, i) = log_sum = shift + std::log(sum_exp(x, shift));
      }
      C loss = 0;
      if (t != a.ignore) {
        loss = weights[t] * (log_sum - static_cast<C>(*reinterpret_cast<const T*>(x.data + t * x.step)));
        if (s > 0) loss = (1 - s) * loss + s * smooth_loss(x, log_sum, weights, total);
      }
      losses[i] = loss;
    });
    *a.count.as<C>() = static_cast<C>(count);
    if (!adds_up) return;
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(losses[i]);
    *a.y.as<C>() = static_cast<C>(a.reduction == Reduction::mean ? sum / count : sum);
  });
}

/// A row of gx.
template <class T>
struct GradRow {
  char* data;
  std::int64_t step;  // bytes

  GradRow(const View& gx, std::int64_t i)
      : data(gx.as<char>() + i * gx.strides[0] * static_cast<std::int64_t>(sizeof(T))),
        step(gx.strides[1] * static_cast<std::int64_t>(sizeof(T))) {}
  T& operator[](std::int64_t j) const { return *reinterpret_cast<T*>(data + j * step); }
  /// Sets element `at` to `value`, and all others to 0.
  void set_only(std::int64_t size, std::int64_t at, T value) const {
    for (std::int64_t j = 0; j < size; ++j) (*this)[j] = j == at ? value : T{};
  }
};

void cross_entropy_backward(const CrossEntropyBackwardArgs& a) {
  visit_floating(a.gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const std::int64_t classes = a.gx.shape[1];
    const Weights<C> weights{a.weight};
    const auto s = static_cast<C>(a.smoothing), share = s / static_cast<C>(classes);
    const C of_all = a.total.defined() ? share * *a.total.as<C>() : s;
    const C count = a.reduction == Reduction::mean ? *a.count.as<C>() : C{1};
    for_each_sample(a.gx, [&](std::int64_t i) {
      const auto t = element<std::int64_t>(a.target, i);
      const GradRow<T> to(a.gx, i);
      if (t == a.ignore) return to.set_only(classes, -1, T{});
      const C g = (a.reduction == Reduction::none ? element<C>(a.gy, i) : *a.gy.as<C>()) / count;
      const C of_target = weights[t] * (1 - s);
      if (!a.lse.defined()) return to.set_only(classes, t, static_cast<T>(-of_target * g));
      ExpPiece<C> exp;
      row_of<T>(a.logits, i).for_each_piece([&](std::int64_t at, const auto& x) {
        auto p = exp(x, element<C>(a.lse, i));
        if (weights.defined()) p *= of_target + of_all;
        if (t >= at && t < at + x.size()) p[t - at] -= of_target;
        char* const y = to.data + at * to.step;
        if (!weights.defined() || s == 0) return store_piece<T>(y, to.step, (p - share) * g);
        for (std::int64_t j = 0; j < x.size(); ++j) p[j] -= share * weights[at + j];
        store_piece<T>(y, to.step, p * g);
      });
    });
  });
}

void cross_entropy_in_place(const CrossEntropyInPlaceArgs& a) {
  visit_floating(a.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const std::int64_t classes = a.logits.shape[1];
    count_targets(a.target, a.ignore, classes, Weights<C>{{}});
    for_each_sample(a.logits, [&](std::int64_t i) {
      const auto t = element<std::int64_t>(a.target, i);
      const GradRow<T> to(a.logits, i);
      C& loss = element<C>(a.losses, i);
      loss = 0;
      if (t == a.ignore) {
        if (a.writes_gradient) to.set_only(classes, -1, T{});
        return;
      }
      const Row<T> x = row_of<T>(a.logits, i);
      const C shift = x.max(), lse = shift + std::log(sum_exp(x, shift));
      loss = lse - static_cast<C>(to[t]);
      if (!a.writes_gradient) return;
      ExpPiece<C> exp;
      x.for_each_piece([&](std::int64_t at, const auto& piece) {
        auto p = exp(piece, lse);
        if (t >= at && t < at + piece.size()) p[t - at] -= 1;
        store_piece<T>(to.data + at * to.step, to.step, p);
      });
    });
  });
}

}  // namespace

const LossKernels& loss_kernels() {
  static const LossKernels all{
      .cross_entropy = {plan, cross_entropy},
      .cross_entropy_backward = cross_entropy_backward,
      .cross_entropy_in_place = cross_entropy_in_place,
  };
  return all;
}

}  // namespace bytetape::cpu
