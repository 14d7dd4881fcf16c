#include <algorithm>
#include <numeric>

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/matrix_block.h"
#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu::portable {
namespace {

/// Parts of y of the same size, one or several for each thread. They do not change the bits, as gemm() adds the
/// products of each element in one order.
struct Parts {
  std::int64_t batch, m, n, k;
  std::int64_t rows, cols, down, across;  // of a part, and of the grid of parts of a matrix
  int threads;

  explicit Parts(const MatmulArgs& args)
      : batch(args.y.shape[0]), m(args.y.shape[1]), n(args.y.shape[2]), k(args.a.shape[2]) {
    constexpr double grain = 1 << 18;  // multiplications, which take longer than to start a thread
    const double work = static_cast<double>(args.y.numel()) * static_cast<double>(k) / grain;
    threads = static_cast<int>(std::clamp<double>(work, 1, num_threads()));
    split(threads / std::gcd(batch, std::int64_t{threads}));
    threads = static_cast<int>(std::min<std::int64_t>(threads, count()));
  }
  std::int64_t count() const { return batch * down * across; }

 private:
  /// Splits a matrix into `parts`, the closest to squares, or into fewer if they were smaller than a register block.
  void split(std::int64_t parts) {
    std::int64_t best = 1;
    const auto edges = [&](std::int64_t d) { return m / d + n / (parts / d); };
    for (std::int64_t d = 1; d <= parts; ++d)
      if (parts % d == 0 && edges(d) < edges(best)) best = d;
    constexpr std::int64_t row_step = 6, col_step = 16;
    const auto part = [](std::int64_t size, std::int64_t count, std::int64_t step) {
      return std::max(round_up((size + count - 1) / count, step), step);
    };
    rows = part(m, best, row_step);
    cols = part(n, parts / best, col_step);
    down = (m + rows - 1) / rows;
    across = (n + cols - 1) / cols;
  }
};

/// A part of y is computed tile by tile if elements have to be converted. So the scratch is bounded.
constexpr std::int64_t tile_rows = 120, tile_cols = 256, tile_depth = gemm_block_depth;

/// Whether gemm() can read a and b, and add to y, where they are.
template <class C>
bool is_direct(const MatmulArgs& args) {
  const View& y = args.before_activation();
  return args.a.dtype == dtype_of<C> && args.b.dtype == dtype_of<C> && y.dtype == dtype_of<C> &&
         (y.strides[2] == 1 || y.shape[2] == 1);
}

/// The scratch of one thread: a tile of y, blocks of a and b converted to C, and the packed blocks of gemm().
template <class C>
struct Scratch {
  std::size_t y = 0, a = 0, b = 0, gemm;  // bytes
  Scratch(const Parts& p, const MatmulArgs& args) {
    std::int64_t m = std::min(p.m, p.rows), n = std::min(p.n, p.cols), k = p.k;
    if (!is_direct<C>(args)) {
      m = std::min(m, tile_rows), n = std::min(n, tile_cols), k = std::min(k, tile_depth);
      y = aligned_bytes(static_cast<std::size_t>(m * n) * sizeof(C));
      a = aligned_bytes(static_cast<std::size_t>(m * k) * sizeof(C));
      b = aligned_bytes(static_cast<std::size_t>(k * n) * sizeof(C));
    }
    gemm = gemm_scratch<C>(m, n, k);
  }
  std::size_t bytes() const { return y + a + b + gemm; }
};

/// A block of the matrices at `index` of the batch.
struct Block {
  std::int64_t index, row, col, rows, cols;

  template <class V>
  V of(const V& x) const {
    return matrix_block(x, {index}, row, col, rows, cols);
  }
  ConstView left(const ConstView& a, std::int64_t k, std::int64_t depth) const {
    return matrix_block(a, {index}, row, k, rows, depth);
  }
  ConstView right(const ConstView& b, std::int64_t k, std::int64_t depth) const {
    return matrix_block(b, {index}, k, col, depth, cols);
  }
};

/// Sets `to` to what the products are added to.
template <class C>
void start(const MatmulArgs& args, const Block& block, Matrix<C> to) {
  if (args.bias.defined()) return copy(block.of(args.bias), view_of(to));
  if (args.accumulates) return copy(ConstView(block.of(args.y)), view_of(to));
  for (std::int64_t i = 0; i < to.rows; ++i) std::fill_n(to.data + i * to.row_step, to.cols, C{0});
}

template <class C>
void compute_direct(const MatmulArgs& args, const Block& block, char* scratch) {
  const View before = block.of(args.before_activation());
  const Matrix<C> y{before.as<C>(), block.rows, block.cols, before.strides[0], 1};
  if (!args.accumulates) start(args, block, y);
  gemm<C>(matrix_of<C>(block.left(args.a, 0, args.a.shape[2])), matrix_of<C>(block.right(args.b, 0, args.a.shape[2])),
          y, scratch);
}

template <class C>
void compute_tile(const MatmulArgs& args, const Block& block, const Scratch<C>& s, char* scratch) {
  const Matrix<C> y = row_major(reinterpret_cast<C*>(scratch), block.rows, block.cols);
  start(args, block, y);
  for (std::int64_t k = 0; k < args.a.shape[2]; k += tile_depth) {
    const std::int64_t depth = std::min(tile_depth, args.a.shape[2] - k);
    gemm<C>(load_block(block.left(args.a, k, depth), reinterpret_cast<C*>(scratch + s.y)),
            load_block(block.right(args.b, k, depth), reinterpret_cast<C*>(scratch + s.y + s.a)), y,
            scratch + s.y + s.a + s.b);
  }
  copy(view_of(y), block.of(args.before_activation()));
}

template <class C>
void compute_part(const Parts& p, std::int64_t part, const MatmulArgs& args, char* scratch) {
  const std::int64_t row = part / p.across % p.down * p.rows, col = part % p.across * p.cols;
  const Block all{part / (p.down * p.across), row, col, std::min(p.rows, p.m - row), std::min(p.cols, p.n - col)};
  if (is_direct<C>(args)) {
    compute_direct<C>(args, all, scratch);
  } else {
    const Scratch<C> s(p, args);
    for (std::int64_t i = 0; i < all.rows; i += tile_rows)
      for (std::int64_t j = 0; j < all.cols; j += tile_cols)
        compute_tile<C>(
            args, {all.index, row + i, col + j, std::min(tile_rows, all.rows - i), std::min(tile_cols, all.cols - j)},
            s, scratch);
  }
  activate(args.activation, all.of(args.before_activation()), all.of(args.y));
}

Plan plan(const MatmulArgs& args) {
  const Parts parts(args);
  return visit_floating(args.y.dtype, [&](auto zero) -> Plan {
    return {Scratch<compute_t<decltype(zero)>>(parts, args).bytes() * static_cast<std::size_t>(parts.threads)};
  });
}

void matmul(const MatmulArgs& args, const Plan&, Workspace ws) {
  const Parts parts(args);
  if (parts.count() == 0) return;
  const std::size_t slice_bytes = ws.bytes / static_cast<std::size_t>(parts.threads);
  visit_floating(args.y.dtype, [&](auto zero) {
    parallel_for(parts.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread)
        for (std::int64_t part = parts.count() * thread / parts.threads;
             part < parts.count() * (thread + 1) / parts.threads; ++part)
          compute_part<compute_t<decltype(zero)>>(
              parts, part, args, static_cast<char*>(ws.data) + static_cast<std::size_t>(thread) * slice_bytes);
    });
  });
}

}  // namespace

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels all{
      .matmul = {plan, matmul},
  };
  return all;
}

}  // namespace bytetape::cpu::portable
