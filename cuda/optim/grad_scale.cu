// The two launches of a gradient scaler's step: one divides all gradients by the scale, the other updates the scale.
// Their results stay on the device.
#include "bytetape/core/kernels/grad_scale.h"

#include "bytetape/cuda/optim/gradients.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/step_answer.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class T, int most>
__global__ void __launch_bounds__(block_size) unscale_kernel(const __grid_constant__ GradientTable<most> table,
                                                             const float* scale, float* found_inf, StepAnswer answer) {
  const unsigned skips = answer.skips();
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
  if (skips)
    *found_inf = UnscaleArgs::kept;
  else if (!is_finite)
    *found_inf = 1;  // all threads that write it write 1
  answer.leave(skips);
}

void unscale(const UnscaleArgs& args) {
  const Device device = args.scale.device;
  const cudaStream_t stream = stream_of(device);
  StepLaunches step(device, StepLaunches::Kind::other);
  for_each_table(args.gradients, [&](const auto& all) {
    const StepAnswer answer = step.next();
    with_table(all, [&](const auto& table, auto zero) {
      unscale_kernel<decltype(zero)><<<table.blocks(), block_size, 0, stream>>>(table, args.scale.as<float>(),
                                                                                args.found_inf.as<float>(), answer);
    });
  });
}

/// The words that update_kernel() reads and writes.
struct Words {
  float* scale;
  std::int32_t* growth_tracker;
  float* found_inf;
  std::int64_t optimizers;
};

/// Runs on one thread, because there are only as many words as optimizers.
__global__ void update_kernel(const Words words, const GradScaleRule rule, StepAnswer answer) {
  bool overflowed = false, skips = answer.skips() != 0;
  for (std::int64_t i = 0; i < words.optimizers; ++i) {
    overflowed |= words.found_inf[i] != 0;
    skips |= words.found_inf[i] == UnscaleArgs::kept;
    words.found_inf[i] = 0;
  }
  if (skips) return;
  const GradScale next = rule.next({*words.scale, *words.growth_tracker}, overflowed);
  *words.scale = next.scale;
  *words.growth_tracker = next.growth_tracker;
}

void update_scale(const UpdateScaleArgs& args) {
  const Device device = args.scale.device;
  const Words words{args.scale.as<float>(), args.growth_tracker.as<std::int32_t>(), args.found_inf.as<float>(),
                    args.found_inf.numel()};
  StepLaunches step(device, StepLaunches::Kind::other);
  update_kernel<<<1, 1, 0, stream_of(device)>>>(words, args.rule, step.next());
  check_launch();
}

}  // namespace

const GradScaleKernels& grad_scale_kernels() {
  static const GradScaleKernels all{.unscale = unscale, .update_scale = update_scale};
  return all;
}

}  // namespace bytetape::cuda
