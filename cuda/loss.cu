// Cross entropy. Some lanes share a row, as the plan says, and read it once: maximum and sum of exponentials are kept
// together, and the sum is rescaled where the maximum moves (Milakov & Gimelshein, "Online normalizer calculation for
// softmax", 2018).
#include <algorithm>
#include <limits>

#include "bytetape/cuda/fault.h"
#include "bytetape/cuda/launch.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int warp_size = 32;
constexpr unsigned all_lanes = ~0u;

/// Of f32 and f64: 16-bit logits are widened by the op.
template <class F>
void visit_wide(DType t, F&& f) {
  t == DType::f64 ? f(double{}) : f(float{});
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return ::fmax(a, b);
  }
};

/// op over v of `lanes` neighbours, or for 0 of the block, on every one of them. All threads of the block come here.
template <int lanes, class T, class Op>
__device__ T reduce(T v, Op op) {
  for (int d = (lanes ? lanes : warp_size) / 2; d > 0; d /= 2) v = op(v, __shfl_xor_sync(all_lanes, v, d));
  if constexpr (lanes == 0) {
    __shared__ T of_warp[warp_size];
    __syncthreads();  // those of the call before were read
    if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = v;
    __syncthreads();
    v = of_warp[0];
    for (unsigned w = 1; w < blockDim.x / warp_size; ++w) v = op(v, of_warp[w]);
  }
  return v;
}

/// A vector with a step.
template <class T>
struct Column {
  T* data;
  std::int64_t step;
  __device__ T& operator[](std::int64_t i) const { return data[i * step]; }
};
template <class T>
Column<T> column(const View& v) {
  return {v.as<T>(), v.rank() > 0 ? v.strides[0] : 0};  // of a scalar every element is the one
}
template <class T>
Column<const T> column(const ConstView& v) {
  return {v.as<T>(), v.rank() > 0 ? v.strides[0] : 0};
}

template <class T>
struct Matrix {
  T* data;
  std::int64_t row_step, step;
  __device__ Column<T> operator[](std::int64_t i) const { return {data + i * row_step, step}; }
};
template <class T>
Matrix<T> matrix(const View& v) {
  return {v.as<T>(), v.strides[0], v.strides[1]};
}
template <class T>
Matrix<const T> matrix(const ConstView& v) {
  return {v.as<T>(), v.strides[0], v.strides[1]};
}

struct Targets {
  Column<const std::int64_t> data;
  std::int64_t n, classes, ignore;

  Targets(const ConstView& target, std::int64_t classes, std::int64_t ignore)
      : data(column<std::int64_t>(target)), n(target.shape[0]), classes(classes), ignore(ignore) {}
  __device__ bool is_class(std::int64_t t) const { return t >= 0 && t < classes; }
  __device__ bool is_fault(std::int64_t t) const { return t != ignore && !is_class(t); }
};

/// Of elements x[lane], x[lane + lanes], ...
template <class T>
struct RowSums {
  T max = -std::numeric_limits<T>::infinity();
  T exps = 0;  // of x - max
  T sum = 0;
};

template <int batch, class T>
__device__ RowSums<T> scan(const Column<const T>& x, std::int64_t size, int lane, int lanes) {
  constexpr T least = -std::numeric_limits<T>::infinity();
  RowSums<T> r;
  for (std::int64_t first = lane; first < size; first += std::int64_t{lanes} * batch) {
    T v[batch], max = r.max;
    for (int k = 0; k < batch; ++k) {
      const std::int64_t j = first + k * lanes;
      v[k] = j < size ? x[j] : least;
      r.sum += j < size ? v[k] : T{0};
    }
    for (int k = 0; k < batch; ++k) max = ::fmax(max, v[k]);
    const T shift = max == least ? T{0} : max;  // -inf - -inf would be NaN
    r.exps *= ::exp(r.max - shift);
    for (int k = 0; k < batch; ++k) r.exps += ::exp(v[k] - shift);
    r.max = max;
  }
  return r;
}

/// The sums of all lanes. NaN where all elements are -inf, as x - max is.
template <int lanes, class T>
__device__ RowSums<T> joined(const RowSums<T>& r) {
  const T max = reduce<lanes>(r.max, Larger());
  return {max, reduce<lanes>(r.exps * ::exp(r.max - max), Plus()), reduce<lanes>(r.sum, Plus())};
}

/// What rows add up to.
struct alignas(16) Partial {
  double loss = 0, count = 0;
};

/// Sums over the block, in the same order every time.
__device__ Partial joined(const Partial& p) { return {reduce<0>(p.loss, Plus()), reduce<0>(p.count, Plus())}; }

/// Where all rows end up.
template <class T>
struct Result {
  Column<T> y;
  T* count;
  Reduction reduction;

  __device__ void write(const Partial& all) const {
    *count = static_cast<T>(all.count);
    if (reduction != Reduction::none)
      y[0] = static_cast<T>(reduction == Reduction::mean ? all.loss / all.count : all.loss);
  }
};

template <class T>
struct Forward {
  Matrix<const T> logits;
  Targets targets;
  T smoothing;
  Column<T> lse;
  Result<T> result;
  std::int64_t rows_each;  // of a block
  Partial* partials;       // one for each block; null where there is but one
  FaultSlot faults;
};

// With smoothing s over c classes: (1 - s) (lse - x_t) + s / c sum_j (lse - x_j).
template <class T, int lanes>
__global__ void __launch_bounds__(1024) cross_entropy_kernel(Forward<T> a) {
  constexpr int batch = lanes || sizeof(T) == 8 ? 4 : 8;  // loads in flight
  const int width = lanes ? lanes : static_cast<int>(blockDim.x), groups = static_cast<int>(blockDim.x) / width,
            group = static_cast<int>(threadIdx.x) / width, lane = static_cast<int>(threadIdx.x) % width;
  const Targets& targets = a.targets;
  const std::int64_t begin = blockIdx.x * a.rows_each, end = std::min(begin + a.rows_each, targets.n);
  Partial mine;
  for (std::int64_t first = begin; first < end; first += groups) {  // as often for every thread: reduce() needs all
    const std::int64_t i = first + group;
    const bool is_row = i < end, leads = is_row && lane == 0;
    const Column<const T> x = a.logits[is_row ? i : begin];
    const std::int64_t t = leads ? targets.data[i] : targets.ignore;
    const bool counts = t != targets.ignore, is_class = targets.is_class(t);
    const T wanted = counts && is_class ? x[t] : T{0};  // on its way while the row is read
    const RowSums<T> row = joined<lanes>(scan<batch>(x, is_row ? targets.classes : 0, lane, width));
    if (!leads) continue;
    const T log_sum = row.max + ::log(row.exps), s = a.smoothing;
    a.lse[i] = log_sum;
    T loss = 0;
    if (counts && is_class) {
      loss = log_sum - wanted;
      if (s > 0) loss = (1 - s) * loss + s * (log_sum - row.sum / static_cast<T>(targets.classes));
    }
    if (a.result.reduction == Reduction::none) a.result.y[i] = loss;
    mine.loss += static_cast<double>(loss);
    mine.count += counts;
    if (counts && !is_class)
      leave_if_first(a.faults, {Fault::Kind::target, t, targets.classes}, i,
                     [&](std::int64_t row) { return targets.is_fault(targets.data[row]); });
  }
  const Partial all = joined(mine);
  if (threadIdx.x != 0) return;
  if (a.partials)
    a.partials[blockIdx.x] = all;
  else
    a.result.write(all);
}

template <class T>
__global__ void __launch_bounds__(1024) add_up_kernel(const Partial* partials, int n, Result<T> result) {
  Partial mine;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    const Partial p = partials[i];
    mine.loss += p.loss;
    mine.count += p.count;
  }
  const Partial all = joined(mine);
  if (threadIdx.x == 0) result.write(all);
}

/// Threads of a block, from geometry alone: in what order rows add up depends on it.
unsigned threads_for(std::int64_t n, std::int64_t classes, std::int64_t lanes, bool is_single) {
  if (lanes == 0) return n <= 512 && classes >= 8192 ? 1024 : block_size;  // long rows, and few: more of each at a time
  if (!is_single) return block_size;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((n * lanes + warp_size - 1) / warp_size * warp_size, warp_size, 1024));
}

void cross_entropy(const CrossEntropyArgs& args, const Plan& plan, Workspace ws) {
  const cudaStream_t stream = stream_of(args.y.device);
  const std::int64_t n = args.logits.shape[0], classes = args.logits.shape[1], lanes = plan.algorithm;
  const bool is_single = plan.workspace == 0;
  const auto blocks = is_single ? 1 : static_cast<int>(plan.workspace / sizeof(Partial));
  const unsigned threads = threads_for(n, classes, lanes, is_single);
  visit_wide(args.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Result<T> result{column<T>(args.y), args.count.as<T>(), args.reduction};
    auto* partials = is_single ? nullptr : static_cast<Partial*>(ws.data);
    const auto kernel = lanes == 0   ? cross_entropy_kernel<T, 0>
                        : lanes == 4 ? cross_entropy_kernel<T, 4>
                        : lanes == 8 ? cross_entropy_kernel<T, 8>
                                     : cross_entropy_kernel<T, 32>;
    kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>({matrix<T>(args.logits),
                                                                   {args.target, classes, args.ignore},
                                                                   static_cast<T>(args.smoothing),
                                                                   column<T>(args.lse),
                                                                   result,
                                                                   (n + blocks - 1) / blocks,
                                                                   partials,
                                                                   FaultSlot(args.y.device)});
    if (!is_single) add_up_kernel<T><<<1, 1024, 0, stream>>>(partials, blocks, result);
  });
  check_launch();
}

template <class T>
struct Backward {
  Matrix<const T> logits;
  Targets targets;
  T smoothing, share;  // share of it that a class has
  Column<const T> lse, gy;
  const T* count;  // null where gy is not divided by it
  Matrix<T> gx;

  /// What all elements of row i need.
  struct Row {
    std::int64_t t;
    T lse, g;
    bool counts;
  };
  __device__ Row row(std::int64_t i) const {
    const std::int64_t t = targets.data[i];
    return {t, lse[i], count ? gy[i] / *count : gy[i], t != targets.ignore && targets.is_class(t)};
  }
  // (softmax - wanted) gy, in the order of the CPU's.
  __device__ T operator()(const Row& row, std::int64_t j, T x) const {
    if (!row.counts) return 0;
    T p = ::exp(x - row.lse);
    if (j == row.t) p -= 1 - smoothing;
    return (p - share) * row.g;
  }
};

/// For rows that are short: elements are counted across them.
template <class T>
__global__ void __launch_bounds__(block_size) backward_kernel(Backward<T> f, std::uint32_t size) {
  constexpr int batch = 4;
  const auto classes = static_cast<std::uint32_t>(f.targets.classes);
  for (std::uint32_t first = blockIdx.x * (batch * block_size) + threadIdx.x; first < size;
       first += gridDim.x * (batch * block_size)) {
    T x[batch];
    std::uint32_t i[batch], j[batch];
    for (int k = 0; k < batch; ++k) {
      const std::uint32_t e = first + k * block_size;
      i[k] = e / classes;
      j[k] = e - i[k] * classes;
      if (e < size) x[k] = f.logits[i[k]][j[k]];
    }
    for (int k = 0; k < batch; ++k)
      if (first + k * block_size < size) f.gx[i[k]][j[k]] = f(f.row(i[k]), j[k], x[k]);
  }
}

constexpr int row_batch = 8;
constexpr std::int64_t piece = row_batch * block_size;

/// For rows that are long: a block takes a piece of one at a time.
template <class T>
__global__ void __launch_bounds__(block_size)
    backward_pieces_kernel(Backward<T> f, std::int64_t pieces, std::int64_t of_row) {
  for (std::int64_t at = blockIdx.x; at < pieces; at += gridDim.x) {
    const std::int64_t i = at / of_row, first = (at - i * of_row) * piece + threadIdx.x;
    const Column<const T> from = f.logits[i];
    const Column<T> to = f.gx[i];
    T x[row_batch];
    for (int k = 0; k < row_batch; ++k)
      if (first + k * block_size < f.targets.classes) x[k] = from[first + k * block_size];
    const auto row = f.row(i);
    for (int k = 0; k < row_batch; ++k)
      if (const std::int64_t j = first + k * block_size; j < f.targets.classes) to[j] = f(row, j, x[k]);
  }
}

void cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  const std::int64_t n = args.logits.shape[0], classes = args.logits.shape[1], size = n * classes;
  if (size == 0) return;
  const Device device = args.gx.device;
  const cudaStream_t stream = stream_of(device);
  visit_wide(args.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto smoothing = static_cast<T>(args.smoothing);
    const Backward<T> f{matrix<T>(args.logits),
                        {args.target, classes, args.ignore},
                        smoothing,
                        smoothing / static_cast<T>(classes),
                        column<T>(args.lse),
                        column<T>(args.gy),
                        args.reduction == Reduction::mean ? args.count.as<T>() : nullptr,
                        matrix<T>(args.gx)};
    if (classes < 512 && size < std::int64_t{1} << 31) {
      backward_kernel<<<blocks_for((size + 3) / 4, device), block_size, 0, stream>>>(f,
                                                                                     static_cast<std::uint32_t>(size));
    } else {
      const std::int64_t of_row = (classes + piece - 1) / piece, pieces = n * of_row;
      backward_pieces_kernel<<<blocks_for(pieces * block_size, device), block_size, 0, stream>>>(f, pieces, of_row);
    }
  });
  check_launch();
}

}  // namespace

LossKernels loss_kernels() {
  return {
      .cross_entropy = {plan, cross_entropy},
      .cross_entropy_backward = cross_entropy_backward,
  };
}

}  // namespace bytetape::cuda
