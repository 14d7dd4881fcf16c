// The direction of a Muon step before it is orthogonalized, in two launches. The first one's blocks store sums of
// squares. In the second, each block adds those of its parameter, always in the same order, to get the norm, then
// computes its share of the direction again and divides it. So the direction needs no memory in between.
#include "bytetape/cuda/optim/muon.h"

#include <algorithm>
#include <span>

#include "bytetape/cuda/optim/lerp.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/slots.cuh"

namespace bytetape::cuda {
namespace {

/// The memory of one parameter's direction.
struct Direction {
  const void *gradient, *buffer;
  BFloat16* to;
  std::int64_t size;
  double momentum, eps;
  int number;  // index of its step params
  DType dtype, gradient_dtype;
  bool is_nesterov;
};

/// The arguments of a launch. Each block handles one chunk.
struct Directions {
  static constexpr int most = 128;
  const MuonStepParams* replay_params;  // step params of all slots, or null
  double* partials;                     // one per block
  int count = 0;
  std::uint32_t chunks = 0;
  std::uint32_t first[most + 1];  // the first block of each parameter, and the end
  Direction all[most];
};

template <class C>
__device__ C read(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return static_cast<C>(static_cast<const float*>(data)[i]);
  if (dtype == DType::bf16) return static_cast<C>(widened(static_cast<const BFloat16*>(data)[i]));
  if (dtype == DType::f16) return static_cast<C>(widened(static_cast<const Half*>(data)[i]));
  return static_cast<C>(static_cast<const double*>(data)[i]);
}

/// Calls f(i, u) for the elements of this block's chunk of the direction u.
template <class C, class F>
__device__ void for_each_element(const Directions& d, int at, F&& f) {
  const Direction& x = d.all[at];
  const MuonStepParams* p = d.replay_params ? d.replay_params + x.number : nullptr;
  const auto momentum = static_cast<C>(p ? p->momentum : x.momentum),
             weight = static_cast<C>(1 - (p ? p->momentum : x.momentum));
  const bool is_nesterov = p ? p->is_nesterov != 0 : x.is_nesterov;
  const std::int64_t begin = (blockIdx.x - d.first[at]) * muon_chunk, end = std::min(begin + muon_chunk, x.size);
  for (std::int64_t i = begin + threadIdx.x; i < end; i += block_size) {
    const C g = read<C>(x.gradient, x.gradient_dtype, i), b = lerp(read<C>(x.buffer, x.dtype, i), g, weight);
    f(i, is_nesterov ? lerp(g, b, momentum) : b);
  }
}

template <class F>
__device__ void for_each_element(const Directions& d, int at, F&& f) {
  d.all[at].dtype == DType::f64 ? for_each_element<double>(d, at, f) : for_each_element<float>(d, at, f);
}

/// Returns the sum over the block to every thread.
__device__ double sum_of_block(double v) {
  return reduce_block<WarpOrder::sequential, block_size / 32>(Plus(), v, block_size);
}

__global__ void __launch_bounds__(block_size) squares_kernel(const __grid_constant__ Directions d) {
  double sum = 0;
  for_each_element(d, slot_of(d.first, d.count, blockIdx.x), [&](std::int64_t, auto u) {
    const auto v = static_cast<double>(u);
    sum += v * v;
  });
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) d.partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(block_size) direction_kernel(const __grid_constant__ Directions d) {
  const int at = slot_of(d.first, d.count, blockIdx.x);
  double sum = 0;
  for (std::uint32_t i = d.first[at] + threadIdx.x; i < d.first[at + 1]; i += block_size) sum += d.partials[i];
  const double norm = ::sqrt(sum_of_block(sum));
  const double factor = 1 / (norm < d.all[at].eps ? d.all[at].eps : norm);
  for_each_element(d, at, [&](std::int64_t i, auto u) {
    d.all[at].to[i] = narrowed<BFloat16>(static_cast<float>(u * static_cast<decltype(u)>(factor)));
  });
}

void launch(const Directions& d, cudaStream_t stream) {
  squares_kernel<<<d.chunks, block_size, 0, stream>>>(d);
  direction_kernel<<<d.chunks, block_size, 0, stream>>>(d);
  check_launch();
}

template <class T>
__global__ void __launch_bounds__(block_size)
    polynomial_kernel(const T* gram, T* square, std::int64_t size, std::int64_t n, compute_t<T> c0, compute_t<T> c1,
                      compute_t<T> c2) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < size;
       i += std::int64_t{gridDim.x} * block_size) {
    const compute_t<T> v = ::fma(c1, widened(gram[i]), c2 * widened(square[i]));
    square[i] = narrowed<T>(i % n == i / n % n ? v + c0 : v);
  }
}

}  // namespace

void muon_direction(const MuonDirectionArgs& args, const Plan&, Workspace ws) {
  if (args.slots.empty()) return;
  const cudaStream_t stream = stream_of(args.slots[0].parameter.device);
  Directions d{.replay_params = args.params.replay_params, .partials = static_cast<double*>(ws.data)};
  for (std::size_t i = 0; i < args.slots.size(); ++i) {
    const MuonSlot& s = args.slots[i];
    const MuonStepParams& p = args.params.step_params[i];
    d.first[d.count] = d.chunks;
    d.all[d.count++] = {s.gradient.data(),
                        s.momentum_buffer.data(),
                        args.directions[i].as<BFloat16>(),
                        s.momentum_buffer.numel(),
                        p.momentum,
                        args.eps[i],
                        static_cast<int>(i),
                        s.momentum_buffer.dtype,
                        s.gradient.dtype,
                        p.is_nesterov != 0};
    d.chunks += static_cast<std::uint32_t>(muon_chunks(s));
    d.first[d.count] = d.chunks;
    if (d.count < Directions::most && i + 1 < args.slots.size()) continue;
    launch(d, stream);
    d.partials += d.chunks;
    d.count = 0;
    d.chunks = 0;
  }
}

void muon_polynomial(const ConstView& gram, const View& square, const std::array<double, 3>& c) {
  const std::int64_t size = square.numel();
  if (size == 0) return;
  visit_floating(square.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    polynomial_kernel<T><<<blocks_for(size, square.device), block_size, 0, stream_of(square.device)>>>(
        gram.as<T>(), square.as<T>(), size, square.shape[2], static_cast<C>(c[0]), static_cast<C>(c[1]),
        static_cast<C>(c[2]));
  });
  check_launch();
}

}  // namespace bytetape::cuda
