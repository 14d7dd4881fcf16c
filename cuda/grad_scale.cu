// A gradient scaler's two launches a step: all gradients come down by the scale, and then the scale goes its way. What
// they find out stays on the device.
#include "bytetape/core/kernels/grad_scale.h"

#include "bytetape/cuda/convert.cuh"
#include "bytetape/cuda/fault.h"
#include "bytetape/cuda/gradients.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class T, int most>
__global__ void __launch_bounds__(block_size)
    unscale_kernel(const __grid_constant__ GradientTable<most> table, const float* scale, float* found_inf,
                   const unsigned* pending) {
  const unsigned skips = *static_cast<const volatile unsigned*>(pending);
  const auto inverse = static_cast<float>(1 / static_cast<double>(*scale));
  bool is_finite = true;
  for_each_vector<T>(table, [&](T* at, auto n) {
    auto x = Packed<T, n>::load(at);
    for (int k = 0; k < n; ++k) {
      const compute_t<T> v = widened(x.values[k]);
      is_finite &= isfinite(v);
      x.values[k] = narrowed<T>(v * inverse);
    }
    if (!skips) x.store(at);
  });
  if (!is_finite && !skips) *found_inf = 1;  // whoever writes it writes the same
}

void unscale(const UnscaleArgs& args) {
  const Device device = args.scale.device;
  const cudaStream_t stream = stream_of(device);
  const unsigned* pending = fault_places(device).pending;
  for_each_table(args.gradients, [&](const auto& all) {
    with_table(all, [&](const auto& table, auto zero) {
      unscale_kernel<decltype(zero)><<<table.blocks(), block_size, 0, stream>>>(table, args.scale.as<float>(),
                                                                                args.found_inf.as<float>(), pending);
    });
  });
}

/// Where update_kernel finds what.
struct Words {
  float* scale;
  std::int32_t* growth_tracker;
  float* found_inf;
  std::int64_t optimizers;
};

/// On one thread: there are as many words as optimizers.
__global__ void update_kernel(const Words words, const GradScaleRule rule, const unsigned* pending) {
  bool overflowed = false;
  for (std::int64_t i = 0; i < words.optimizers; ++i) {
    overflowed |= words.found_inf[i] != 0;
    words.found_inf[i] = 0;
  }
  if (*static_cast<const volatile unsigned*>(pending)) return;
  const GradScale next = rule.next({*words.scale, *words.growth_tracker}, overflowed);
  *words.scale = next.scale;
  *words.growth_tracker = next.growth_tracker;
}

void update_scale(const UpdateScaleArgs& args) {
  const Device device = args.scale.device;
  const Words words{args.scale.as<float>(), args.growth_tracker.as<std::int32_t>(), args.found_inf.as<float>(),
                    args.found_inf.numel()};
  update_kernel<<<1, 1, 0, stream_of(device)>>>(words, args.rule, fault_places(device).pending);
  check_launch();
}

}  // namespace

GradScaleKernels grad_scale_kernels() { return {.unscale = unscale, .update_scale = update_scale}; }

}  // namespace bytetape::cuda
