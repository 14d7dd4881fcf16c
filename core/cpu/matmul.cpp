#include <algorithm>
#include <limits>

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/matrix_block.h"
#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/cpu/register_block.h"
#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu::portable {
namespace {

constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Parts of y, which threads share. They do not change the bits, as gemm() adds the products of each element in one
/// order.
struct Parts {
  std::int64_t batch, m, n, k;
  std::int64_t rows, cols, down, across;  // of a part, and of the grid of parts of a matrix
  std::int64_t threads;

  explicit Parts(const MatmulArgs& args)
      : batch(args.y.shape[0]), m(args.y.shape[1]), n(args.y.shape[2]), k(args.a.shape[2]) {
    constexpr double grain = 1 << 18, least = 1 << 16;  // multiplications: a thread's, and those of a part
    const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    threads =
        static_cast<std::int64_t>(std::clamp<double>(work * static_cast<double>(batch) / grain, 1, num_threads()));
    const auto most = static_cast<std::int64_t>(std::clamp<double>(work / least, 1, static_cast<double>(threads)));
    split(parts_of_matrix(most));
    threads = std::min(threads, count());
  }
  std::int64_t count() const { return batch * down * across; }

 private:
  /// The smallest number of parts with which no thread has more than 9/8 of its share, or else the best number.
  std::int64_t parts_of_matrix(std::int64_t most) const {
    if (batch == 0) return 1;
    std::int64_t best = 1;
    const auto excess = [&](std::int64_t parts) {  // the largest load of a thread, relative to its share
      return static_cast<double>(div_up(batch * parts, threads) * threads) / static_cast<double>(batch * parts);
    };
    for (std::int64_t parts = 1; parts <= most && excess(best) > 9.0 / 8; ++parts)
      if (excess(parts) < excess(best)) best = parts;
    return best;
  }
  /// Splits a matrix into at most so many parts, so that the largest one takes the least time.
  void split(std::int64_t parts) {
    constexpr std::int64_t row_step = most_rows, col_step = 16;  // whole register blocks, and cache lines of y
    constexpr std::int64_t packing = 16;                         // time to pack an element, in multiplications
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t d = 1; d <= parts; ++d) {
      const std::int64_t r = std::max(round_up(div_up(m, d), row_step), row_step),
                         c = std::max(round_up(div_up(n, parts / d), col_step), col_step);
      const std::int64_t time = std::min(r, m) * std::min(c, n) + packing * (std::min(r, m) + std::min(c, n));
      if (time >= least) continue;
      least = time;
      rows = r, cols = c;
    }
    down = div_up(m, rows);
    across = div_up(n, cols);
  }
};

/// Whether gemm() can read a and b, and add to y, where they are.
template <class C>
bool is_direct(const MatmulArgs& args) {
  const View& y = args.before_activation();
  return args.a.dtype == dtype_of<C> && args.b.dtype == dtype_of<C> && y.dtype == dtype_of<C> &&
         (y.strides[2] == 1 || y.shape[2] == 1);
}

/// A part is computed in tiles of a few columns, so that those of parts which are not tall stay in the cache until the
/// activation. If elements have to be converted, tiles bound the scratch of a thread: a tile of y, blocks of a and b,
/// and the packed blocks of gemm().
template <class C>
struct Tile {
  std::int64_t rows, cols, depth;
  std::size_t y = 0, a = 0, b = 0, gemm;  // bytes

  Tile(const Parts& p, const MatmulArgs& args)
      : rows(std::min(p.m, p.rows)), cols(std::min({p.n, p.cols, gemm_block_cols})), depth(p.k) {
    if (!is_direct<C>(args)) {
      rows = std::min(rows, gemm_block_rows), depth = std::min(depth, gemm_block_depth);
      y = bytes_of(rows, cols);
      if (args.a.dtype != dtype_of<C>) a = bytes_of(rows, depth);
      if (args.b.dtype != dtype_of<C>) b = bytes_of(depth, cols);
    }
    gemm = gemm_scratch<C>(rows, cols, depth);
  }
  std::size_t bytes() const { return y + a + b + gemm; }
  static std::size_t bytes_of(std::int64_t m, std::int64_t n) {
    return aligned_bytes(static_cast<std::size_t>(m * n) * sizeof(C));
  }
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

/// Sets `to` to the bias, the old y, or zeros.
template <class C>
void start(const MatmulArgs& args, const Block& block, Matrix<C> to) {
  if (args.bias.defined()) return copy(block.of(args.bias), view_of(to));
  if (args.accumulates) return copy(ConstView(block.of(args.y)), view_of(to));
  for (std::int64_t i = 0; i < to.rows; ++i) std::fill_n(to.data + i * to.row_step, to.cols, C{0});
}

template <class C>
void add_in_place(const MatmulArgs& args, const Block& block, char* scratch) {
  const View before = block.of(args.before_activation());
  const Matrix<C> y{before.as<C>(), block.rows, block.cols, before.strides[0], 1};
  if (!args.accumulates) start(args, block, y);
  const std::int64_t k = args.a.shape[2];
  gemm<C>(matrix_of<C>(block.left(args.a, 0, k)), matrix_of<C>(block.right(args.b, 0, k)), y, scratch);
}

template <class C>
void convert_and_add(const MatmulArgs& args, const Block& block, const Tile<C>& tile, char* scratch) {
  const Matrix<C> y = row_major(reinterpret_cast<C*>(scratch), block.rows, block.cols);
  char *const a = scratch + tile.y, *const b = a + tile.a, *const packed = b + tile.b;
  start(args, block, y);
  for (std::int64_t k = 0; k < args.a.shape[2]; k += tile.depth) {
    const std::int64_t depth = std::min(tile.depth, args.a.shape[2] - k);
    gemm<C>(load_block(block.left(args.a, k, depth), reinterpret_cast<C*>(a)),
            load_block(block.right(args.b, k, depth), reinterpret_cast<C*>(b)), y, packed);
  }
  copy(view_of(y), block.of(args.before_activation()));
}

template <class C>
void compute_part(const Parts& p, std::int64_t part, const MatmulArgs& args, char* scratch) {
  const Tile<C> tile(p, args);
  const bool direct = is_direct<C>(args);
  const std::int64_t row = part / p.across % p.down * p.rows, col = part % p.across * p.cols;
  const std::int64_t end_row = std::min(row + p.rows, p.m), end_col = std::min(col + p.cols, p.n);
  for (std::int64_t i = row; i < end_row; i += tile.rows)
    for (std::int64_t j = col; j < end_col; j += tile.cols) {
      const Block block{part / (p.down * p.across), i, j, std::min(tile.rows, end_row - i),
                        std::min(tile.cols, end_col - j)};
      if (direct)
        add_in_place<C>(args, block, scratch);
      else
        convert_and_add<C>(args, block, tile, scratch);
      activate(args.activation, block.of(args.before_activation()), block.of(args.y));
    }
}

Plan plan(const MatmulArgs& args) {
  const Parts parts(args);
  return visit_floating(args.y.dtype, [&](auto zero) -> Plan {
    return {Tile<compute_t<decltype(zero)>>(parts, args).bytes() * static_cast<std::size_t>(parts.threads)};
  });
}

void matmul(const MatmulArgs& args, const Plan&, Workspace ws) {
  const Parts parts(args);
  const std::int64_t count = parts.count(), threads = parts.threads;
  if (count == 0) return;
  const std::size_t scratch_bytes = ws.bytes / static_cast<std::size_t>(threads);
  visit_floating(args.y.dtype, [&](auto zero) {
    parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) {
        char* const scratch = static_cast<char*>(ws.data) + static_cast<std::size_t>(thread) * scratch_bytes;
        for (std::int64_t part = count * thread / threads; part < count * (thread + 1) / threads; ++part)
          compute_part<compute_t<decltype(zero)>>(parts, part, args, scratch);
      }
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
