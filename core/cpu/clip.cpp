#include "bytetape/core/cpu/clip.h"

#include <cmath>
#include <numeric>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/stretch.h"
#include "bytetape/core/cpu/sum.h"

namespace bytetape::cpu {
namespace {

/// The elements of a gradient that one partial sum covers. It does not depend on the number of threads.
constexpr std::int64_t norm_piece = 16384;

std::int64_t pieces_of(const View& gradient) { return (gradient.numel() + norm_piece - 1) / norm_piece; }

template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  const Eigen::Map<const Array<T>> values(x, n);
  return sum_of(values.unaryExpr([](T v) { return static_cast<double>(v); }).square());
}

/// Computes g = f(g) for every element, in the compute type of its dtype.
template <class F>
void map_gradients(std::span<const View> gradients, F&& f) {
  for_each_stretch(
      gradients.size(), [&](std::size_t i) -> const View& { return gradients[i]; },
      [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        visit_floating(gradients[i].dtype, [&](auto zero) {
          using T = decltype(zero);
          T* g = gradients[i].as<T>();
          for (std::int64_t k = begin; k < end; ++k) g[k] = static_cast<T>(f(static_cast<compute_t<T>>(g[k])));
        });
      });
}

}  // namespace

Plan plan(const ClipGradNormArgs& args) {
  std::int64_t pieces = 0;
  for (const View& g : args.gradients) pieces += pieces_of(g);
  return {.workspace = static_cast<std::size_t>(pieces) * sizeof(double)};
}

void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws) {
  auto* sums = static_cast<double*>(ws.data);
  for (std::size_t i = 0, first = 0; i < args.gradients.size(); ++i) {
    const View& g = args.gradients[i];
    const std::int64_t pieces = pieces_of(g);
    parallel_for(pieces, 2, [&](std::int64_t begin, std::int64_t end) {
      visit_floating(g.dtype, [&](auto zero) {
        using T = decltype(zero);
        for (std::int64_t k = begin, at = k * norm_piece; k < end; ++k, at += norm_piece)
          sums[first + static_cast<std::size_t>(k)] =
              sum_of_squares(g.as<T>() + at, std::min(norm_piece, g.numel() - at));
      });
    });
    first += static_cast<std::size_t>(pieces);
  }
  const double norm = std::sqrt(std::accumulate(sums, sums + plan.workspace / sizeof(double), 0.0));
  visit_floating(args.norm.dtype,
                 [&](auto zero) { *args.norm.as<decltype(zero)>() = static_cast<decltype(zero)>(norm); });
  const double factor = args.max_norm / (norm + 1e-6);
  if (factor >= 1) return;  // false for NaN, which goes into the gradients
  map_gradients(args.gradients, [&](auto v) { return v * static_cast<decltype(v)>(factor); });
}

void clip_grad_value(std::span<const View> gradients, double clip_value) {
  map_gradients(gradients, [&](auto v) {
    const auto most = static_cast<decltype(v)>(clip_value);
    return v > most ? most : v < -most ? -most : v;
  });
}

}  // namespace bytetape::cpu
