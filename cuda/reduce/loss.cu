// Cross entropy. Several lanes share a row, as the plan says, and read it once. They keep the maximum and the sum of
// exponentials together, and rescale the sum when the maximum changes (Milakov & Gimelshein, "Online normalizer
// calculation for softmax", 2018).
#include <algorithm>
#include <limits>

#include "bytetape/core/kernels/loss.h"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/reduce/loss.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int warp_size = 32;

struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return ::fmax(a, b);
  }
};

/// Reduces v with op over `lanes` neighbours, or over the block if `lanes` is 0. Every thread gets the result. All
/// threads of the block must call this.
template <int lanes, class T, class Op>
__device__ T reduce(T v, Op op) {
  T one[1] = {v};
  reduce_warp(op, one, lanes ? lanes : warp_size);
  if constexpr (lanes == 0) reduce_warps<WarpOrder::sequential, warp_size>(op, one, static_cast<int>(blockDim.x));
  return one[0];
}

/// Maximum and sums of elements x[lane], x[lane + lanes], ...
template <class T>
struct RowSums {
  T max = -std::numeric_limits<T>::infinity();
  T exps = 0;  // sum of exp(x - max)
  T sum = 0;   // sum of x, weighted if there are weights
};

template <int batch, Rows rows, class T, class C = compute_t<T>>
__device__ RowSums<C> scan(const Column<const T>& x, std::int64_t size, int lane, int lanes,
                           [[maybe_unused]] const Weights<C>& weights) {
  constexpr C least = -std::numeric_limits<C>::infinity();
  RowSums<C> r;
  for (std::int64_t first = lane; first < size; first += std::int64_t{lanes} * batch) {
    C v[batch], max = r.max;
    for (int k = 0; k < batch; ++k) {
      const std::int64_t j = first + k * lanes;
      v[k] = j < size ? widened(x[j]) : least;
      if constexpr (rows == Rows::weighted)
        r.sum += j < size ? weights[j] * v[k] : C{0};
      else
        r.sum += j < size ? v[k] : C{0};
    }
    for (int k = 0; k < batch; ++k) max = ::fmax(max, v[k]);
    const C shift = max == least ? C{0} : max;  // -inf - -inf would be NaN
    r.exps *= ::exp(r.max - shift);
    for (int k = 0; k < batch; ++k) r.exps += ::exp(v[k] - shift);
    r.max = max;
  }
  return r;
}

/// Combines the lanes of a row. NaN if all elements are -inf, because x - max is NaN.
template <int lanes, class T>
__device__ RowSums<T> joined(const RowSums<T>& r) {
  const T max = reduce<lanes>(r.max, Larger());
  return {max, reduce<lanes>(r.exps * ::exp(r.max - max), Plus()), reduce<lanes>(r.sum, Plus())};
}

/// Sums over rows.
struct alignas(16) Partial {
  double loss = 0, count = 0;
};

/// Returns the sums over the block, in a fixed order.
__device__ Partial joined(const Partial& p) { return {reduce<0>(p.loss, Plus()), reduce<0>(p.count, Plus())}; }

/// The results of the kernel.
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

template <class T, class C = compute_t<T>>
struct Forward {
  Matrix<const T> logits;
  Targets targets;
  C smoothing;
  Column<C> lse;
  Result<C> result;
  std::int64_t rows_each;  // rows per block
  Partial* partials;       // one per block; null if there is one block
  FaultSlot faults;
  Weights<C> weights;
};

/// Returns (1 - s) w_t (lse - x_t) + s / c sum_j w_j (lse - x_j), with smoothing s over c classes.
template <Rows rows, class T, class C>
__device__ C loss_of(const Forward<T>& a, const RowSums<C>& row, C log_sum, C wanted, [[maybe_unused]] C weight) {
  const C s = a.smoothing, c = static_cast<C>(a.targets.classes);
  C loss = log_sum - wanted;
  if constexpr (rows != Rows::plain) loss *= weight;
  if constexpr (rows == Rows::plain)
    if (s > 0) loss = (1 - s) * loss + s * (log_sum - row.sum / c);
  if constexpr (rows == Rows::weighted)
    if (s > 0) loss = (1 - s) * loss + s * ((a.weights.sum() * log_sum - row.sum) / c);
  return loss;
}

template <class T, int lanes, Rows rows>
__global__ void __launch_bounds__(1024) cross_entropy_kernel(Forward<T> a) {
  using C = compute_t<T>;
  constexpr int batch = lanes || sizeof(C) == 8 ? 4 : 8;  // loads in flight
  const int width = lanes ? lanes : static_cast<int>(blockDim.x), groups = static_cast<int>(blockDim.x) / width,
            group = static_cast<int>(threadIdx.x) / width, lane = static_cast<int>(threadIdx.x) % width;
  const Targets& targets = a.targets;
  const std::int64_t begin = blockIdx.x * a.rows_each, end = std::min(begin + a.rows_each, targets.n);
  Partial mine;
  for (std::int64_t first = begin; first < end; first += groups) {  // as often in all threads: reduce() needs all
    const std::int64_t i = first + group;
    const bool is_row = i < end, leads = is_row && lane == 0;
    const Column<const T> x = a.logits[is_row ? i : begin];
    const std::int64_t t = leads ? targets.data[i] : targets.ignore;
    const bool counts = t != targets.ignore, is_class = targets.is_class(t);
    const C wanted = counts && is_class ? widened(x[t]) : C{0};  // loaded early, to arrive while the row is read
    RowSums<C> row;
    if constexpr (rows != Rows::log_probabilities)
      row = joined<lanes>(scan<batch, rows>(x, is_row ? targets.classes : 0, lane, width, a.weights));
    if (!leads) continue;
    C log_sum = 0;
    if constexpr (rows != Rows::log_probabilities) {
      log_sum = row.max + ::log(row.exps);
      a.lse[i] = log_sum;
    }
    C weight = counts;
    if constexpr (rows != Rows::plain) weight = counts && is_class ? a.weights[t] : C{0};
    const C loss = counts && is_class ? loss_of<rows>(a, row, log_sum, wanted, weight) : C{0};
    if (a.result.reduction == Reduction::none) a.result.y[i] = loss;
    mine.loss += static_cast<double>(loss);
    mine.count += static_cast<double>(weight);
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

template <class T, Rows rows>
auto kernel_with(std::int64_t lanes) {
  return lanes == 0   ? cross_entropy_kernel<T, 0, rows>
         : lanes == 4 ? cross_entropy_kernel<T, 4, rows>
         : lanes == 8 ? cross_entropy_kernel<T, 8, rows>
                      : cross_entropy_kernel<T, 32, rows>;
}
template <class T>
auto kernel_for(Rows rows, std::int64_t lanes) {
  if (rows == Rows::log_probabilities) return cross_entropy_kernel<T, 1, Rows::log_probabilities>;
  return rows == Rows::weighted ? kernel_with<T, Rows::weighted>(lanes) : kernel_with<T, Rows::plain>(lanes);
}

/// Returns the threads per block. They depend on geometry alone, because the order of sums depends on them.
unsigned threads_for(std::int64_t n, std::int64_t classes, std::int64_t lanes, bool is_single) {
  if (lanes == 0) return n <= 512 && classes >= 8192 ? 1024 : block_size;  // few long rows need more threads each
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
  visit_floating(args.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Result<C> result{column<C>(args.y), args.count.as<C>(), args.reduction};
    auto* partials = is_single ? nullptr : static_cast<Partial*>(ws.data);
    const auto kernel = kernel_for<T>(rows_of(args.lse, args.weight), lanes);
    kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>({matrix<T>(args.logits),
                                                                   {args.target, classes, args.ignore},
                                                                   static_cast<C>(args.smoothing),
                                                                   column<C>(args.lse),
                                                                   result,
                                                                   (n + blocks - 1) / blocks,
                                                                   partials,
                                                                   FaultSlot(args.y.device),
                                                                   {args.weight, args.total}});
    if (!is_single) add_up_kernel<C><<<1, 1024, 0, stream>>>(partials, blocks, result);
  });
  check_launch();
}

}  // namespace

const LossKernels& loss_kernels() {
  static const LossKernels all{
      .cross_entropy = {loss_plans().cross_entropy.plan, cross_entropy},
      .cross_entropy_backward = cross_entropy_backward,
      .cross_entropy_in_place = cross_entropy_in_place,
  };
  return all;
}

}  // namespace bytetape::cuda
