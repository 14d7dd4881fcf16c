// Softmax and related functions of rows along a dim. If a row is contiguous and fits, a group of threads holds it in
// registers. Otherwise each pass reads the row again: by a whole block, or by adjacent threads if rows are adjacent
// element by element.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>

#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/softmax.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int warp = 32, most_threads = 1024, unroll = 4;
constexpr std::int64_t enough_blocks = 264;  // two per multiprocessor of an H100

// The functions of a row, as passes over its elements. If the row keeps() its elements, a pass can replace them by its
// results, which are then not computed again.

struct Softmax {
  static constexpr int inputs = 1;
  template <class Row>
  __device__ static void run(Row& row) {
    using C = typename Row::C;
    const C shift = row.max();
    const C total = row.sum([shift](C& x) {
      const C e = ::exp(x - shift);
      if constexpr (Row::keeps()) x = e;
      return e;
    });
    const C scale = C{1} / total;
    row.write([shift, scale](C x) {
      if constexpr (Row::keeps())
        return x * scale;
      else
        return ::exp(x - shift) * scale;
    });
  }
};

struct LogSoftmax {
  static constexpr int inputs = 1;
  template <class Row>
  __device__ static void run(Row& row) {
    using C = typename Row::C;
    const C shift = row.max();
    const C log_sum = ::log(row.sum([shift](C x) { return ::exp(x - shift); }));
    row.write([shift, log_sum](C x) { return x - shift - log_sum; });
  }
};

struct SoftmaxBackward {
  static constexpr int inputs = 2;
  template <class Row>
  __device__ static void run(Row& row) {
    using C = typename Row::C;
    const C dot = row.sum([](C y, C gy) { return y * gy; });
    row.write([dot](C y, C gy) { return y * (gy - dot); });
  }
};

struct LogSoftmaxBackward {
  static constexpr int inputs = 2;
  template <class Row>
  __device__ static void run(Row& row) {
    using C = typename Row::C;
    const C total = row.sum([](C, C gy) { return gy; });
    row.write([total](C y, C gy) { return gy - ::exp(y) * total; });
  }
};

struct Larger {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return b > a ? b : a;  // with NaNs any element may win, because all results are NaN anyway
  }
};

/// Returns f of element i of each input.
template <class F, class C, int n>
__device__ auto apply(const F& f, C (&values)[1][n], int i) {
  return f(values[0][i]);
}
template <class F, class C, int n>
__device__ auto apply(const F& f, C (&values)[2][n], int i) {
  return f(values[0][i], values[1][i]);
}

/// The rows of the result (operand 0) and of the inputs.
template <int K>
struct Rows {
  Steps<K, std::int64_t> rows;
  std::int64_t size;       // elements of a row
  std::int64_t steps[K];   // steps within a row
  int along, across = 1;   // threads of a row, and adjacent rows; powers of two
  bool is_vector = false;  // whether elements of rows are adjacent and aligned
};

/// Reduces v with f over `along` adjacent threads. All threads of the block must call this. All threads of a row get
/// the same bits.
template <class F, class C>
__device__ C over_neighbours(const F& f, C v, int along) {
  return reduce_block<WarpOrder::tree, most_threads / warp>(f, v, along);
}

/// As over_neighbours(), over `along` threads that are `across` apart and fill the block.
template <class F, class C>
__device__ C over_block(const F& f, C v, int at, int along, int across) {
  C one[1] = {v};
  const auto& shared = reduce_apart<most_threads>(f, one, at, along, across);
  __syncthreads();
  v = shared[0][static_cast<int>(threadIdx.x) & (across - 1)];
  __syncthreads();
  return v;
}

template <class T>
constexpr int lanes = static_cast<int>(16 / sizeof(T));
/// The elements of each input that a thread holds. They take 32 registers in all.
template <class Op, class T>
constexpr int held = static_cast<int>(128 / sizeof(compute_t<T>)) / Op::inputs;

template <class Op, class T>
class HeldRow {
 public:
  using C = compute_t<T>;
  static constexpr bool keeps() { return true; }

  __device__ HeldRow(const Rows<Op::inputs + 1>& r, int at, bool is_there, T* out,
                     const std::array<const T*, Op::inputs>& in)
      : r_(r), size_(static_cast<int>(r.size)), at_(at), is_there_(is_there), out_(out) {
    // Missing elements have no effect: exp(-inf - max) is 0, and so are products with 0.
    constexpr C missing = Op::inputs == 1 ? -std::numeric_limits<C>::infinity() : C{0};
#pragma unroll
    for (int k = 0; k < Op::inputs; ++k) {
      T packed[held<Op, T>];
#pragma unroll
      for (int j = 0; j < pieces; ++j) read(in[k], r.steps[k + 1], j, packed);
#pragma unroll
      for (int i = 0; i < held<Op, T>; ++i) values_[k][i] = place(i / n) + i % n < size_ ? widened(packed[i]) : missing;
    }
  }
  __device__ C max() {
    C best = -std::numeric_limits<C>::infinity();
    each([&](int i) { best = Larger()(best, values_[0][i]); });
    return over_neighbours(Larger(), best, r_.along);
  }
  template <class F>
  __device__ C sum(const F& f) {
    C total = 0;
    each([&](int i) { total += apply(f, values_, i); });
    return over_neighbours(Plus(), total, r_.along);
  }
  template <class F>
  __device__ void write(const F& f) {
    if (!is_there_) return;
#pragma unroll
    for (int j = 0; j < pieces; ++j) {
      const int first = place(j);
      if (first >= size_) break;
      Packed<T, n> packed;
#pragma unroll
      for (int k = 0; k < n; ++k) packed.values[k] = narrowed<T>(apply(f, values_, j * n + k));
      if (r_.is_vector && first + n <= size_) {
        packed.store(out_ + first);
      } else {
#pragma unroll
        for (int k = 0; k < n; ++k)
          if (first + k < size_) out_[(first + k) * r_.steps[0]] = packed.values[k];
      }
    }
  }

 private:
  static constexpr int n = lanes<T>, pieces = held<Op, T> / n;

  /// Returns where piece j of the thread begins.
  __device__ int place(int j) const { return (j * r_.along + at_) * n; }
  __device__ void read(const T* in, std::int64_t step, int j, T* packed) const {
    const int first = place(j);
    if (first >= size_) return;
    if (r_.is_vector && first + n <= size_) {
      const auto vector = Packed<T, n>::load(in + first);
#pragma unroll
      for (int k = 0; k < n; ++k) packed[j * n + k] = vector.values[k];
    } else {
#pragma unroll
      for (int k = 0; k < n; ++k)
        if (first + k < size_) packed[j * n + k] = in[(first + k) * step];
    }
  }
  /// Calls f for the elements that the thread holds, except pieces that are beyond the row in all threads.
  template <class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int j = 0; j < pieces; ++j)
      if (j * r_.along * n < size_) {
#pragma unroll
        for (int k = 0; k < n; ++k) f(j * n + k);
      }
  }

  const Rows<Op::inputs + 1>& r_;
  int size_, at_;
  bool is_there_;
  T* out_;
  C values_[Op::inputs][held<Op, T>];
};

template <class Op, class T>
class StridedRow {
 public:
  using C = compute_t<T>;
  static constexpr bool keeps() { return false; }

  __device__ StridedRow(const Rows<Op::inputs + 1>& r, int at, bool is_there, T* out,
                        const std::array<const T*, Op::inputs>& in)
      : r_(r), at_(at), is_there_(is_there), out_(out), in_(in) {}
  __device__ C max() {
    C best = -std::numeric_limits<C>::infinity();
    each([&](std::int64_t, C x) { best = Larger()(best, x); }, [](C x) { return x; });
    return over_block(Larger(), best, at_, r_.along, r_.across);
  }
  template <class F>
  __device__ C sum(const F& f) {
    double total = 0;  // f64, because rows may be long
    each([&](std::int64_t, C v) { total += static_cast<double>(v); }, f);
    return static_cast<C>(over_block(Plus(), total, at_, r_.along, r_.across));
  }
  template <class F>
  __device__ void write(const F& f) {
    if (!is_there_) return;
    each([&](std::int64_t i, C v) { out_[i * r_.steps[0]] = narrowed<T>(v); }, f);
  }

 private:
  /// Calls take(i, f(inputs at i)) for the elements of this thread.
  template <class Take, class F>
  __device__ void each(const Take& take, const F& f) {
    for (std::int64_t i = at_; i < r_.size; i += unroll * r_.along) {
      C values[Op::inputs][unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        const std::int64_t from = min(i + u * r_.along, r_.size - 1);
#pragma unroll
        for (int k = 0; k < Op::inputs; ++k) values[k][u] = widened(in_[k][from * r_.steps[k + 1]]);
      }
#pragma unroll
      for (int u = 0; u < unroll; ++u)
        if (i + u * r_.along < r_.size) take(i + u * r_.along, apply(f, values, u));
    }
  }

  const Rows<Op::inputs + 1>& r_;
  int at_;
  bool is_there_;
  T* out_;
  std::array<const T*, Op::inputs> in_;
};

template <class Op, class T, class Row>
__device__ void run(const Rows<Op::inputs + 1>& r, std::int64_t row, int at, T* out,
                    std::array<const T*, Op::inputs> in) {
  std::int64_t offsets[Op::inputs + 1];
  r.rows.find(min(row, r.rows.count - 1), offsets);  // no thread returns early, because sums need all
#pragma unroll
  for (int k = 0; k < Op::inputs; ++k) in[k] += offsets[k + 1];
  Row values(r, at, row < r.rows.count, out + offsets[0], in);
  Op::run(values);
}

template <class Op, class T>
__global__ void __launch_bounds__(most_threads)
    held_kernel(const __grid_constant__ Rows<Op::inputs + 1> r, T* out, std::array<const T*, Op::inputs> in) {
  const int t = threadIdx.x;
  const std::int64_t row = std::int64_t{blockIdx.x} * (blockDim.x / r.along) + t / r.along;
  run<Op, T, HeldRow<Op, T>>(r, row, t & (r.along - 1), out, in);
}

template <class Op, class T>
__global__ void __launch_bounds__(most_threads)
    strided_kernel(const __grid_constant__ Rows<Op::inputs + 1> r, T* out, std::array<const T*, Op::inputs> in) {
  const int t = threadIdx.x;
  const std::int64_t row = std::int64_t{blockIdx.x} * r.across + (t & (r.across - 1));
  run<Op, T, StridedRow<Op, T>>(r, row, t / r.across, out, in);
}

int power_of_two(std::int64_t at_least, std::int64_t most) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min(at_least, most))));
}

template <class Op, class T, class... X>
void launch(int dim, const View& y, const X&... x) {
  constexpr int K = sizeof...(X) + 1;
  const cudaStream_t stream = stream_of(y.device);
  Shape others = y.shape;
  others[dim] = 1;
  Walk<K> walk(others, {&y.strides, &x.strides...});
  walk.complete();
  Rows<K> r{.rows = Steps<K, std::int64_t>(walk), .size = y.shape[dim], .steps = {y.strides[dim], x.strides[dim]...}};
  const std::int64_t n = r.size, rows = r.rows.count;
  const std::array<const T*, Op::inputs> in{x.template as<T>()...};

  const std::int64_t neighbour = walk.strides[0].back();
  const bool is_run = n == 1 || rows == 1 || r.steps[0] <= neighbour;
  if (is_run && n <= std::int64_t{most_threads} * held<Op, T>) {
    r.along = n <= warp * held<Op, T> ? power_of_two(ceil_div(n, lanes<T>), warp)
                                      : power_of_two(ceil_div(n, held<Op, T>), most_threads);
    const auto is_even = [](std::int64_t v) { return v % lanes<T> == 0; };
    r.is_vector = std::all_of(std::begin(r.steps), std::end(r.steps), [](std::int64_t s) { return s == 1; }) &&
                  are_aligned({&y, &x...}) &&
                  std::all_of(walk.strides.begin(), walk.strides.end(),
                              [&](const Strides& s) { return std::all_of(s.begin(), s.end(), is_even); });
    const int threads = std::max(r.along, 4 * warp);
    held_kernel<Op, T>
        <<<static_cast<unsigned>(ceil_div(rows, threads / r.along)), threads, 0, stream>>>(r, y.as<T>(), in);
  } else {
    int threads = 256;
    const int most = power_of_two(ceil_div(n, unroll), threads);  // threads that a row can use
    r.along = std::min(most, 8);
    r.across = threads / r.along;
    const auto is_few = [&] { return r.across > 8 && ceil_div(rows, r.across) < enough_blocks; };
    for (; r.along < most && (r.across >= 2 * rows || is_few()); r.along *= 2) r.across /= 2;
    if (is_run) threads = r.along = most_threads, r.across = 1;
    strided_kernel<Op, T><<<static_cast<unsigned>(ceil_div(rows, r.across)), threads, 0, stream>>>(r, y.as<T>(), in);
  }
  check_launch();
}

template <class Op, class... X>
void along_rows(int dim, const View& y, const X&... x) {
  if (y.numel() == 0) return;
  visit_floating(y.dtype, [&](auto zero) { launch<Op, decltype(zero)>(dim, y, x...); });
}

void softmax(const ConstView& x, int dim, const View& y) { along_rows<Softmax>(dim, y, x); }
void log_softmax(const ConstView& x, int dim, const View& y) { along_rows<LogSoftmax>(dim, y, x); }
void softmax_backward(const ConstView& y, const ConstView& gy, int dim, const View& gx) {
  along_rows<SoftmaxBackward>(dim, gx, y, gy);
}
void log_softmax_backward(const ConstView& y, const ConstView& gy, int dim, const View& gx) {
  along_rows<LogSoftmaxBackward>(dim, gx, y, gy);
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
  static const SoftmaxKernels all{
      .softmax = softmax,
      .log_softmax = log_softmax,
      .softmax_backward = softmax_backward,
      .log_softmax_backward = log_softmax_backward,
  };
  return all;
}

}  // namespace bytetape::cuda
