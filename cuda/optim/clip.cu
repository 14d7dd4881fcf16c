// Clipping by value, in one launch, and by the norm of all gradients, in two. The first launch's blocks store sums of
// squares. In the second, each block adds all of them in the same order to get the norm, and scales its share. So no
// counters of blocks are needed, and nothing has to be cleared.
#include "bytetape/cuda/optim/clip.h"

#include "bytetape/cuda/optim/gradients.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/step_answer.h"

namespace bytetape::cuda {
namespace {

/// Returns the sum over the block to every thread.
__device__ double sum_of_block(double v) {
  return reduce_block<WarpOrder::sequential, block_size / 32>(Plus(), v, block_size);
}

template <class T, int most>
__global__ void __launch_bounds__(block_size)
    squares_kernel(const __grid_constant__ GradientTable<most> table, double* partials) {
  double sum = 0;
  for_each_vector<T>(table, [&](const T* from, auto n) {
    const auto x = Packed<T, n>::load(from);
    for (int k = 0; k < n; ++k) {
      const auto v = static_cast<double>(widened(x.values[k]));
      sum += v * v;
    }
  });
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// The arguments of all launches.
struct Clip {
  const double* partials;
  int count;
  double max_norm;
  void* norm;
  bool is_norm_f64;
  StepAnswer answer{};

  __device__ void write(double v) const {
    if (is_norm_f64)
      *static_cast<double*>(norm) = v;
    else
      *static_cast<float*>(norm) = static_cast<float>(v);
  }
};

template <class T, int most>
__global__ void __launch_bounds__(block_size)
    scale_kernel(const __grid_constant__ GradientTable<most> table, const Clip clip) {
  const unsigned skips = clip.answer.skips();
  double sum = 0;
  for (int i = threadIdx.x; i < clip.count; i += block_size) sum += clip.partials[i];
  const double norm = ::sqrt(sum_of_block(sum)), wanted = clip.max_norm / (norm + 1e-6);
  if (blockIdx.x == 0 && threadIdx.x == 0) clip.write(norm);
  clip.answer.leave(skips);
  if (skips || wanted >= 1) return;  // false for NaN, which goes into the gradients
  const auto factor = static_cast<compute_t<T>>(wanted);
  for_each_vector<T>(table, [&](T* at, auto n) {
    auto x = Packed<T, n>::load(at);
    for (int k = 0; k < n; ++k) x.values[k] = narrowed<T>(widened(x.values[k]) * factor);
    x.store(at);
  });
}

template <class T, int most>
__global__ void __launch_bounds__(block_size)
    clamp_kernel(const __grid_constant__ GradientTable<most> table, double clip_value, StepAnswer answer) {
  const unsigned skips = answer.skips();
  const auto limit = static_cast<compute_t<T>>(clip_value);
  for_each_vector<T>(table, [&](T* at, auto n) {
    auto x = Packed<T, n>::load(at);
    for (int k = 0; k < n; ++k) {
      const compute_t<T> v = widened(x.values[k]);
      x.values[k] = narrowed<T>(v > limit ? limit : v < -limit ? -limit : v);  // NaN stays NaN
    }
    if (!skips) x.store(at);
  });
  answer.leave(skips);
}

}  // namespace

void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws) {
  const Device device = args.norm.device;
  const cudaStream_t stream = stream_of(device);
  auto* partials = static_cast<double*>(ws.data);
  for_each_table(args.gradients, [&](const auto& all) {
    with_table(all, [&](const auto& table, auto zero) {
      squares_kernel<decltype(zero)><<<table.blocks(), block_size, 0, stream>>>(table, partials);
    });
    partials += all.blocks();
  });
  StepLaunches step(device, StepLaunches::Kind::clipping);
  Clip clip{static_cast<const double*>(ws.data), static_cast<int>(plan.workspace / sizeof(double)), args.max_norm,
            args.norm.data(), args.norm.dtype == DType::f64};
  for_each_table(args.gradients, [&](const auto& all) {
    clip.answer = step.next();
    with_table(all, [&](const auto& table, auto zero) {
      scale_kernel<decltype(zero)><<<table.blocks(), block_size, 0, stream>>>(table, clip);
    });
  });
}

void clip_grad_value(std::span<const View> gradients, double clip_value) {
  const Device device = gradients[0].device;
  const cudaStream_t stream = stream_of(device);
  StepLaunches step(device, StepLaunches::Kind::clipping);
  for_each_table(gradients, [&](const auto& all) {
    const StepAnswer answer = step.next();
    with_table(all, [&](const auto& table, auto zero) {
      clamp_kernel<decltype(zero)><<<table.blocks(), block_size, 0, stream>>>(table, clip_value, answer);
    });
  });
}

}  // namespace bytetape::cuda
