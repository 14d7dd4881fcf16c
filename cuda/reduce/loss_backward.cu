#include "bytetape/core/kernels/loss.h"
#include "bytetape/cuda/reduce/loss.cuh"

namespace bytetape::cuda {
namespace {

template <class T, Rows rows, class C = compute_t<T>>
struct Backward {
  Matrix<const T> logits;
  Targets targets;
  C smoothing, share;  // share: smoothing per class
  Column<const C> lse, gy;
  const C* count;  // null if gy is not divided by it
  Matrix<T> gx;
  Weights<C> weights;

  /// Values that all elements of row i need.
  struct Row {
    std::int64_t t;
    C lse, g;
    bool counts;
    C of_target, of_all;  // if there are weights: w_t (1 - s), and w_t (1 - s) + s / c sum_j w_j
  };
  __device__ Row row(std::int64_t i) const {
    const std::int64_t t = targets.data[i];
    Row r{t, 0, count ? gy[i] / *count : gy[i], t != targets.ignore && targets.is_class(t), 0, 0};
    if constexpr (rows != Rows::log_probabilities) r.lse = lse[i];
    if constexpr (rows != Rows::plain) {
      r.of_target = r.counts ? weights[t] * (1 - smoothing) : C{0};
      r.of_all = r.of_target + share * weights.sum();
    }
    return r;
  }
  /// Returns 0 for log-probabilities, which the gradient does not need.
  __device__ C logit(std::int64_t i, std::int64_t j) const {
    if constexpr (rows == Rows::log_probabilities)
      return 0;
    else
      return widened(logits[i][j]);
  }
  // Computes (softmax - wanted) gy with the operations of the CPU kernel, in the same order.
  __device__ T operator()(const Row& row, std::int64_t j, C x) const { return narrowed<T>(gradient(row, j, x)); }
  __device__ C gradient(const Row& row, std::int64_t j, C x) const {
    if (!row.counts) return 0;
    if constexpr (rows == Rows::log_probabilities) return j == row.t ? -row.of_target * row.g : C{0};
    C p = ::exp(x - row.lse);
    if constexpr (rows == Rows::weighted) {
      p *= row.of_all;
      if (j == row.t) p -= row.of_target;
      return (p - share * weights[j]) * row.g;
    }
    if (j == row.t) p -= 1 - smoothing;
    return (p - share) * row.g;
  }
};

/// For short rows: threads are spread over all elements.
template <class T, Rows rows>
__global__ void __launch_bounds__(block_size) backward_kernel(Backward<T, rows> f, std::uint32_t size) {
  constexpr int batch = 4;
  const auto classes = static_cast<std::uint32_t>(f.targets.classes);
  for (std::uint32_t first = blockIdx.x * (batch * block_size) + threadIdx.x; first < size;
       first += gridDim.x * (batch * block_size)) {
    compute_t<T> x[batch];
    std::uint32_t i[batch], j[batch];
    for (int k = 0; k < batch; ++k) {
      const std::uint32_t e = first + k * block_size;
      i[k] = e / classes;
      j[k] = e - i[k] * classes;
      if (e < size) x[k] = f.logit(i[k], j[k]);
    }
    for (int k = 0; k < batch; ++k)
      if (first + k * block_size < size) f.gx[i[k]][j[k]] = f(f.row(i[k]), j[k], x[k]);
  }
}

constexpr int row_batch = 8;
constexpr std::int64_t piece = row_batch * block_size;

/// For long rows: a block processes pieces of one row.
template <class T, Rows rows>
__global__ void __launch_bounds__(block_size)
    backward_pieces_kernel(Backward<T, rows> f, std::int64_t pieces, std::int64_t of_row) {
  for (std::int64_t at = blockIdx.x; at < pieces; at += gridDim.x) {
    const std::int64_t i = at / of_row, first = (at - i * of_row) * piece + threadIdx.x;
    const Column<T> to = f.gx[i];
    compute_t<T> x[row_batch];
    for (int k = 0; k < row_batch; ++k)
      if (first + k * block_size < f.targets.classes) x[k] = f.logit(i, first + k * block_size);
    const auto row = f.row(i);
    for (int k = 0; k < row_batch; ++k)
      if (const std::int64_t j = first + k * block_size; j < f.targets.classes) to[j] = f(row, j, x[k]);
  }
}

template <class T, Rows rows>
void launch(const CrossEntropyBackwardArgs& args, const Matrix<const T>& logits) {
  const std::int64_t n = args.gx.shape[0], classes = args.gx.shape[1], size = n * classes;
  const Device device = args.gx.device;
  const cudaStream_t stream = stream_of(device);
  using C = compute_t<T>;
  const auto smoothing = static_cast<C>(args.smoothing);
  const Backward<T, rows> f{logits,
                            {args.target, classes, args.ignore},
                            smoothing,
                            smoothing / static_cast<C>(classes),
                            column<C>(args.lse),
                            column<C>(args.gy),
                            args.reduction == Reduction::mean ? args.count.as<C>() : nullptr,
                            matrix<T>(args.gx),
                            {args.weight, args.total}};
  if (classes < 512 && size < std::int64_t{1} << 31) {
    backward_kernel<<<blocks_for((size + 3) / 4, device), block_size, 0, stream>>>(f, static_cast<std::uint32_t>(size));
  } else {
    const std::int64_t of_row = (classes + piece - 1) / piece, pieces = n * of_row;
    backward_pieces_kernel<<<blocks_for(pieces * block_size, device), block_size, 0, stream>>>(f, pieces, of_row);
  }
  check_launch();
}

}  // namespace

void cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  if (args.gx.numel() == 0) return;
  visit_floating(args.gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    switch (rows_of(args.lse, args.weight)) {
      case Rows::plain:
        return launch<T, Rows::plain>(args, matrix<T>(args.logits));
      case Rows::weighted:
        return launch<T, Rows::weighted>(args, matrix<T>(args.logits));
      case Rows::log_probabilities:
        return launch<T, Rows::log_probabilities>(args, {});
    }
  });
}

}  // namespace bytetape::cuda
