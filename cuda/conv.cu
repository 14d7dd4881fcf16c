// Convolution through cuDNN, whose fast kernels want weights as (o, kh, kw, c / groups): small kernels turn them
// around. What cuDNN does not take (f64, rare geometries, 2^31 elements) becomes products of matrices in im2col.cu, and
// images of few channels are conv_direct.cu's.
#include <algorithm>
#include <bit>
#include <limits>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/conv_direct.h"
#include "bytetape/cuda/conv_sizes.h"
#include "bytetape/cuda/cudnn_graph.h"
#include "bytetape/cuda/elementwise.cuh"
#include "bytetape/cuda/im2col.h"
#include "bytetape/cuda/launch.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

// Weights: a block turns the (channels, taps) matrix of some channels of one output around, in shared memory.

constexpr std::uint32_t tile_size = 2048;

/// From row-major to cuDNN's order, or back.
template <class Bits, bool to_row_major>
__global__ void __launch_bounds__(block_size)
    transpose_kernel(const Bits* from, Bits* to, std::uint32_t channels, std::uint32_t taps, std::uint32_t part) {
  __shared__ Bits tile[tile_size];
  const std::uint32_t parts = (channels + part - 1) / part;
  const std::uint32_t output = blockIdx.x / parts, first = (blockIdx.x - output * parts) * part;
  const std::uint32_t count = min(part, channels - first), n = count * taps;
  const std::int64_t start = std::int64_t{output} * channels * taps;
  const std::int64_t rows = start + std::int64_t{first} * taps;  // the part in row-major order is dense
  const auto across = [&](std::uint32_t i) { return start + std::int64_t{i / count} * channels + first + i % count; };
  const auto in_tile = [&](std::uint32_t i) { return i % count * taps + i / count; };
  for (std::uint32_t i = threadIdx.x; i < n; i += block_size)
    if constexpr (to_row_major)
      tile[in_tile(i)] = from[across(i)];
    else
      tile[i] = from[rows + i];
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < n; i += block_size)
    if constexpr (to_row_major)
      to[rows + i] = tile[i];
    else
      to[across(i)] = tile[in_tile(i)];
}

template <bool to_row_major>
void transpose(const ConvSizes& s, const void* from, void* to, Device device) {
  const auto launch = [&](auto zero) {
    using Bits = decltype(zero);
    const auto channels = static_cast<std::uint32_t>(s.group_in()), taps = static_cast<std::uint32_t>(s.taps());
    const std::uint32_t part = std::min(channels, tile_size / taps), parts = (channels + part - 1) / part;
    transpose_kernel<Bits, to_row_major><<<static_cast<unsigned>(s.o * parts), block_size, 0, stream_of(device)>>>(
        static_cast<const Bits*>(from), static_cast<Bits*>(to), channels, taps, part);
  };
  size_of(s.dtype) == 2 ? launch(std::uint16_t{}) : launch(std::uint32_t{});
  check_launch();
}

// A bias where no engine adds it: y (count) += bias[i / inner % channels].

template <class T, int n>
__global__ void __launch_bounds__(block_size)
    bias_kernel(T* y, const T* bias, std::uint32_t count, std::uint32_t inner, std::uint32_t channels) {
  using C = compute_t<T>;
  const std::uint32_t step = gridDim.x * block_size;
  for (std::uint32_t v = blockIdx.x * block_size + threadIdx.x; v < count / n; v += step) {
    const std::uint32_t i = v * n, channel = i / inner % channels;
    auto packed = *reinterpret_cast<const detail::Lanes<T, n>*>(y + i);
    for (int k = 0; k < n; ++k)
      packed.values[k] = static_cast<T>(static_cast<C>(packed.values[k]) + static_cast<C>(bias[channel + k]));
    *reinterpret_cast<detail::Lanes<T, n>*>(y + i) = packed;
  }
}

void add_bias(const ConvSizes& s, const ConstView& bias, const View& y, bool channels_last) {
  visit_floating(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int lanes = 16 / sizeof(T);
    const auto count = static_cast<std::uint32_t>(s.y_numel()), channels = static_cast<std::uint32_t>(s.o);
    const auto inner = static_cast<std::uint32_t>(channels_last ? 1 : s.oh * s.ow);
    const cudaStream_t stream = stream_of(y.device);
    if (channels_last && channels % lanes == 0 && detail::is_aligned<T>(y, lanes))
      bias_kernel<T, lanes><<<blocks_for(count / lanes, y.device), block_size, 0, stream>>>(y.as<T>(), bias.as<T>(),
                                                                                            count, inner, channels);
    else
      bias_kernel<T, 1>
          <<<blocks_for(count, y.device), block_size, 0, stream>>>(y.as<T>(), bias.as<T>(), count, inner, channels);
  });
  check_launch();
}

// The bias's gradient: sums of gy's columns, in an order that its shape alone decides.

/// Where gy's row r, column 0 is, and the step from a column to the next.
struct Rows {
  std::int64_t inner, outer_step, inner_step, column_step;

  Rows(const ConvSizes& s, bool channels_last) {
    const std::int64_t pixels = s.oh * s.ow;
    inner = channels_last ? s.n * pixels : pixels;
    outer_step = channels_last ? 0 : s.o * pixels;
    inner_step = channels_last ? s.o : 1;
    column_step = channels_last ? 1 : pixels;
  }
  __device__ std::int64_t at(std::int64_t row) const {
    const std::int64_t outer = row / inner;
    return outer * outer_step + (row - outer * inner) * inner_step;
  }
};

/// Block (b, s) sums block b of the columns over split s of the rows, into `sums` (splits, columns), or y where that is
/// null. With more than one lane, columns are adjacent.
template <class T, int lanes>
__global__ void __launch_bounds__(ColumnSums::threads)
    column_sums_kernel(ColumnSums how, Rows rows, const T* x, bool is_aligned, compute_t<T>* sums, T* y) {
  using C = compute_t<T>;
  __shared__ C shared[lanes][ColumnSums::threads];
  const int thread = static_cast<int>(threadIdx.x), row = thread / how.across;
  const std::int64_t column = (std::int64_t{blockIdx.x} * how.across + thread % how.across) * lanes;
  const std::int64_t end = how.rows * (blockIdx.y + 1) / how.splits;
  C sum[lanes] = {};
  if (column < how.columns) {
#pragma unroll 4
    for (std::int64_t r = how.rows * blockIdx.y / how.splits + row; r < end; r += how.down) {
      if constexpr (lanes == 1) {
        sum[0] += static_cast<C>(x[rows.at(r) + column * rows.column_step]);
      } else {
        const T* from = x + r * how.columns + column;
        detail::Lanes<T, lanes> packed;
        if (is_aligned)
          packed = *reinterpret_cast<const detail::Lanes<T, lanes>*>(from);
        else
          for (int k = 0; k < lanes; ++k) packed.values[k] = from[k];
        for (int k = 0; k < lanes; ++k) sum[k] += static_cast<C>(packed.values[k]);
      }
    }
  }
  for (int k = 0; k < lanes; ++k) shared[k][thread] = sum[k];
  __syncthreads();
  for (int half = how.down / 2; half > 0; half /= 2) {
    if (row < half)
      for (int k = 0; k < lanes; ++k) shared[k][thread] += shared[k][thread + half * how.across];
    __syncthreads();
  }
  if (row > 0 || column >= how.columns) return;
  for (int k = 0; k < lanes; ++k) {
    if (sums)
      sums[blockIdx.y * how.columns + column + k] = shared[k][thread];
    else
      y[column + k] = static_cast<T>(shared[k][thread]);
  }
}

constexpr int warp = 32, warps = 16;

/// y = the sum of `sums` (splits, columns) over the splits.
template <class T>
__global__ void __launch_bounds__(warp* warps)
    add_sums_kernel(const compute_t<T>* sums, std::int64_t splits, std::int64_t columns, T* y) {
  using C = compute_t<T>;
  __shared__ C shared[warps][warp];
  const std::int64_t column = std::int64_t{blockIdx.x} * warp + threadIdx.x;
  C sum{0};
  if (column < columns)
    for (std::int64_t s = threadIdx.y; s < splits; s += warps) sum += sums[s * columns + column];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int k = 1; k < warps; ++k) sum += shared[k][threadIdx.x];
  y[column] = static_cast<T>(sum);
}

void sum_columns(const ConvSizes& s, const ConstView& gy, const View& gb, void* sums) {
  const bool channels_last = is_channels_last(gy.shape, gy.strides);
  const ColumnSums how(s, channels_last);
  const Rows rows(s, channels_last);
  const cudaStream_t stream = stream_of(gy.device);
  visit_floating(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    constexpr int most = 16 / sizeof(T);
    C* parts = how.splits > 1 ? static_cast<C*>(sums) : nullptr;
    const dim3 grid(static_cast<unsigned>(how.blocks), static_cast<unsigned>(how.splits));
    if (how.lanes == most)
      column_sums_kernel<T, most><<<grid, ColumnSums::threads, 0, stream>>>(
          how, rows, gy.as<T>(), detail::is_aligned<T>(gy, most), parts, gb.as<T>());
    else
      column_sums_kernel<T, 1>
          <<<grid, ColumnSums::threads, 0, stream>>>(how, rows, gy.as<T>(), true, parts, gb.as<T>());
    if (parts)
      add_sums_kernel<T><<<static_cast<unsigned>((s.o + warp - 1) / warp), dim3(warp, warps), 0, stream>>>(
          parts, how.splits, s.o, gb.as<T>());
  });
  check_launch();
}

// Launches.

std::int64_t alignment_of(const void* data) {
  return std::min<std::int64_t>(16, std::int64_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(data)));
}

/// A convolution as cuDNN may take it, and what is done around that.
class Launch {
 public:
  Launch(const ConvSizes& s, ConvMap map, const ConvWorkspace& parts, const ConstView& x, const ConstView& weight,
         const ConstView& y, const Plan& plan, Workspace ws)
      : problem_{s, map, is_channels_last(x.shape, x.strides) && is_channels_last(y.shape, y.strides), false, 0, 0,
                 0, 0},
        device_(y.device),
        weight_(weight.data()),
        scratch_(static_cast<char*>(ws.data) + parts.scratch),
        turns_weight_(problem_.channels_last && s.taps() > 1 && s.group_in() > 1) {
    memory_ = {x.data(), turns_weight_ ? static_cast<char*>(ws.data) + parts.weight : weight_, y.data(), nullptr};
    problem_.workspace = plan.workspace - parts.scratch;
    problem_.x_alignment = alignment_of(memory_.x);
    problem_.weight_alignment = alignment_of(memory_.weight);
    problem_.y_alignment = alignment_of(memory_.y);
    const bool row_major = x.is_contiguous() && y.is_contiguous();
    is_for_cudnn_ = s.dtype != DType::f64 && (problem_.channels_last || row_major) && is_small(s);
  }

  /// Finds cuDNN's graph; false where there is none.
  bool find(const void* bias = nullptr) {
    problem_.with_bias = bias != nullptr;
    memory_.bias = bias;
    graph_ = is_for_cudnn_ ? find_graph(problem_, device_) : nullptr;
    return graph_ != nullptr;
  }
  void run() {
    const bool makes_weight = problem_.map == ConvMap::weight_grad;
    auto* turned = const_cast<void*>(memory_.weight);
    if (turns_weight_ && !makes_weight) transpose<false>(problem_.sizes, weight_, turned, device_);
    cuda::run(*graph_, memory_, scratch_, device_);
    if (turns_weight_ && makes_weight) transpose<true>(problem_.sizes, turned, const_cast<void*>(weight_), device_);
  }
  bool channels_last() const { return problem_.channels_last; }
  void* scratch() const { return scratch_; }

 private:
  /// What libraries count in 32 bits stays far below that, and a tile of our own holds the taps.
  static bool is_small(const ConvSizes& s) {
    constexpr std::int64_t elements = std::numeric_limits<std::int32_t>::max(), step = 1 << 12;
    const auto is_step = [&](Size2 v) { return v.h < step && v.w < step; };
    return s.x_numel() <= elements && s.y_numel() <= elements && s.weights() <= elements && s.taps() <= tile_size &&
           is_step(s.p.stride) && is_step(s.p.padding) && is_step(s.p.dilation);
  }

  ConvProblem problem_;
  Device device_;
  const void* weight_;  // as the caller has it, row-major
  void* scratch_;
  bool turns_weight_, is_for_cudnn_;
  ConvMemory memory_{};
  ConvGraph* graph_ = nullptr;
};

void conv2d(const Conv2dArgs& a, const Plan& plan, Workspace ws) {
  const ConvSizes s(a);
  if (s.n == 0) return;
  if (plan.algorithm == conv_direct) return direct_forward(a);
  Launch launch(s, ConvMap::forward, ConvWorkspace(s, ConvMap::forward), a.x, a.weight, a.y, plan, ws);
  const void* bias = a.bias.data();
  if (bias && alignment_of(bias) == 16 && launch.find(bias)) return launch.run();
  if (!launch.find()) return im2col_forward(a, launch.scratch());
  launch.run();
  if (bias) add_bias(s, a.bias, a.y, launch.channels_last());
}

void conv2d_input_grad(const Conv2dInputGradArgs& a, const Plan& plan, Workspace ws) {
  const ConvSizes s(a);
  if (s.n == 0) return;
  Launch launch(s, ConvMap::input_grad, ConvWorkspace(s, ConvMap::input_grad), a.gx, a.weight, a.gy, plan, ws);
  launch.find() ? launch.run() : im2col_input_grad(a, launch.scratch());
}

void fill_zero(const View& x) {
  if (!x.defined()) return;
  check(cudaMemsetAsync(x.data(), 0, static_cast<std::size_t>(x.numel()) * size_of(x.dtype), stream_of(x.device)));
}

void conv2d_weight_grad(const Conv2dWeightGradArgs& a, const Plan& plan, Workspace ws) {
  const ConvSizes s(a);
  if (s.n == 0) {
    fill_zero(a.gw);
    return fill_zero(a.gb);
  }
  if (plan.algorithm == conv_direct) return direct_weight_grad(a, ws.data);
  const bool channels_last = is_channels_last(a.gy.shape, a.gy.strides);
  const ConvWorkspace parts(s, ConvMap::weight_grad, a.gb.defined(), channels_last);
  Launch launch(s, ConvMap::weight_grad, parts, a.x, a.gw, a.gy, plan, ws);
  launch.find() ? launch.run() : im2col_weight_grad(a, launch.scratch());
  if (a.gb.defined()) sum_columns(s, a.gy, a.gb, static_cast<char*>(ws.data) + parts.sums);
}

}  // namespace

ConvKernels conv_kernels() {
  return {
      .conv2d = {plan, conv2d},
      .conv2d_input_grad = {plan, conv2d_input_grad},
      .conv2d_weight_grad = {plan, conv2d_weight_grad},
  };
}

}  // namespace bytetape::cuda
