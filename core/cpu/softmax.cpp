#include "bytetape/core/kernels/softmax.h"
#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

struct Out {
  char* data;
  std::int64_t step;  // bytes
};

/// Calls f(out, rows...) for every run along `dim` of y and the inputs, in parallel.
template <class T, class F, class... X>
void for_each_run(const F& f, int dim, const View& y, const X&... x) {
  if (numel(y.shape) == 0) return;
  const std::int64_t n = y.shape[dim];
  const auto first = [dim](ConstView v) {
    v.shape[dim] = 1;
    return v;
  };
  const auto step = [dim](const ConstView& v) { return v.strides[dim] * static_cast<std::int64_t>(sizeof(T)); };
  const std::array<ConstView, sizeof...(X) + 1> views{first(y), first(x)...};
  const std::array<std::int64_t, sizeof...(X) + 1> along{step(y), step(x)...};
  std::array<const ConstView*, sizeof...(X) + 1> operands;
  for (std::size_t k = 0; k < views.size(); ++k) operands[k] = &views[k];
  const auto rows = [&](std::int64_t count, const auto& p, const auto& steps) {
    const auto run = [&]<std::size_t... I>(std::int64_t i, std::index_sequence<I...>) {
      f(Out{p[0] + i * steps[0], along[0]}, Row<T>{p[I + 1] + i * steps[I + 1], along[I + 1], n}...);
    };
    for (std::int64_t i = 0; i < count; ++i) run(i, std::index_sequence_for<X...>());
  };
  for_each_row(make_loop(operands), rows, std::max<std::int64_t>(exp_grain / n, 1));
}

template <class T>
void softmax_run(Out y, const Row<T>& x) {
  using C = compute_t<T>;
  ExpPiece<C> exp;
  const C shift = x.max();
  if constexpr (std::is_same_v<T, C>) {  // y holds the exponentials until their sum is known
    double total = 0;
    x.for_each_piece([&](std::int64_t at, const auto& v) {
      store_piece<T>(y.data + at * y.step, y.step, exp(v, shift));
      total += exp.sum();
    });
    const C scale = static_cast<C>(1 / total);
    Row<T>{y.data, y.step, x.size}.for_each_piece(
        [&](std::int64_t at, const auto& e) { store_piece<T>(y.data + at * y.step, y.step, e * scale); });
  } else {
    const C scale = 1 / sum_exp(x, shift);
    x.for_each_piece(
        [&](std::int64_t at, const auto& v) { store_piece<T>(y.data + at * y.step, y.step, exp(v, shift) * scale); });
  }
}

void softmax(const ConstView& x, int dim, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_run<T>([](Out y, const Row<T>& x) { softmax_run(y, x); }, dim, y, x);
  });
}

void log_softmax(const ConstView& x, int dim, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [](Out y, const Row<T>& x) {
      const auto shift = x.max(), log_sum = std::log(sum_exp(x, shift));
      x.for_each_piece(
          [&](std::int64_t at, const auto& v) { store_piece<T>(y.data + at * y.step, y.step, v - shift - log_sum); });
    };
    for_each_run<T>(run, dim, y, x);
  });
}

void softmax_backward(const ConstView& y, const ConstView& gy, int dim, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto run = [](Out gx, const Row<T>& y, const Row<T>& gy) {
      detail::Source<T> source;
      const auto y_at = [&](std::int64_t at, std::int64_t n) { return source.load(y.data + at * y.step, y.step, n); };
      double total = 0;
      gy.for_each_piece(
          [&](std::int64_t at, const auto& g) { total += static_cast<double>(sum_of(y_at(at, g.size()) * g)); });
      const auto dot = static_cast<C>(total);
      gy.for_each_piece([&](std::int64_t at, const auto& g) {
        store_piece<T>(gx.data + at * gx.step, gx.step, y_at(at, g.size()) * (g - dot));
      });
    };
    for_each_run<T>(run, dim, gx, y, gy);
  });
}

void log_softmax_backward(const ConstView& y, const ConstView& gy, int dim, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto run = [](Out gx, const Row<T>& y, const Row<T>& gy) {
      detail::Source<T> source;
      ExpPiece<C> exp;
      const C total = gy.sum();
      y.for_each_piece([&](std::int64_t at, const auto& v) {
        const auto g = source.load(gy.data + at * gy.step, gy.step, v.size());
        store_piece<T>(gx.data + at * gx.step, gx.step, g - exp(v, C{0}) * total);
      });
    };
    for_each_run<T>(run, dim, gx, y, gy);
  });
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
  static const SoftmaxKernels all{
      .softmax = softmax,
      .log_softmax = log_softmax,
      .softmax_backward = softmax_backward,
      .log_softmax_backward = log_softmax_backward,
  };
  return all;
}

}  // namespace bytetape::cpu
