#include "bytetape/core/kernels/grad_scale.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "bytetape/core/cpu/stretch.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// Multiplies n elements. Returns false if an element is not finite.
template <class T>
bool unscale_stretch(T* g, std::int64_t n, compute_t<T> inverse) {
  bool is_finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<compute_t<T>>(g[i]);
    is_finite &= std::isfinite(v);
    g[i] = static_cast<T>(v * inverse);
  }
  return is_finite;
}

void unscale(const UnscaleArgs& args) {
  const auto inverse = static_cast<float>(1 / double{*args.scale.as<float>()});
  std::atomic<bool> is_finite{true};
  for_each_stretch(
      args.gradients.size(), [&](std::size_t i) -> const View& { return args.gradients[i]; },
      [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        visit_floating(args.gradients[i].dtype, [&](auto zero) {
          using T = decltype(zero);
          if (!unscale_stretch(args.gradients[i].as<T>() + begin, end - begin, compute_t<T>{inverse}))
            is_finite = false;
        });
      });
  if (!is_finite) *args.found_inf.as<float>() = 1;
}

void update_scale(const UpdateScaleArgs& args) {
  float *scale = args.scale.as<float>(), *found = args.found_inf.as<float>(), *end = found + args.found_inf.numel();
  auto* tracker = args.growth_tracker.as<std::int32_t>();
  const bool overflowed = std::any_of(found, end, [](float v) { return v != 0; });
  const GradScale next = args.rule.next({*scale, *tracker}, overflowed);
  *scale = next.scale;
  *tracker = next.growth_tracker;
  std::fill(found, end, 0.0f);
}

}  // namespace

const GradScaleKernels& grad_scale_kernels() {
  static const GradScaleKernels all{.unscale = unscale, .update_scale = update_scale};
  return all;
}

}  // namespace bytetape::cpu
