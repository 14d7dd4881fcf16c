#include <algorithm>

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/gemm.h"
#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu::portable {
namespace {

// y is cut into tiles of a fixed size, so that its bits do not depend on how many threads share them.
constexpr std::int64_t tile_rows = 128, tile_cols = 256, tile_depth = 256;

struct Tiles {
  std::int64_t batch, m, n, k, down, across;
  explicit Tiles(const MatmulArgs& args)
      : batch(args.y.shape[0]),
        m(args.y.shape[1]),
        n(args.y.shape[2]),
        k(args.a.shape[2]),
        down((m + tile_rows - 1) / tile_rows),
        across((n + tile_cols - 1) / tile_cols) {}
  std::int64_t count() const { return batch * down * across; }
  std::int64_t threads() const { return std::min<std::int64_t>(num_threads(), count()); }
};

/// Where one thread keeps its tile of y, blocks of a and b converted to C, and what gemm() packs.
template <class C>
struct Scratch {
  std::size_t y, a, b, gemm;  // bytes
  explicit Scratch(const Tiles& t) {
    const std::int64_t m = std::min(t.m, tile_rows), n = std::min(t.n, tile_cols), k = std::min(t.k, tile_depth);
    y = aligned_bytes(static_cast<std::size_t>(m * n) * sizeof(C));
    a = aligned_bytes(static_cast<std::size_t>(m * k) * sizeof(C));
    b = aligned_bytes(static_cast<std::size_t>(k * n) * sizeof(C));
    gemm = gemm_scratch<C>(m, n, k);
  }
  std::size_t bytes() const { return y + a + b + gemm; }
};

/// Rows row.., columns col.. of matrix i of a batch.
template <class V>
V block(const V& x, std::int64_t i, std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
  const std::int64_t at = i * x.strides[0] + row * x.strides[1] + col * x.strides[2];
  auto* data = static_cast<char*>(const_cast<void*>(x.data())) + at * static_cast<std::int64_t>(size_of(x.dtype));
  return V(data, x.dtype, x.device, {rows, cols}, {x.strides[1], x.strides[2]});
}

/// A block as gemm() wants it: in place, or copied and converted into `buffer`.
template <class C>
Matrix<const C> load(const ConstView& x, C* buffer) {
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  if (x.dtype == dtype_of<C>) {
    const Matrix<const C> direct{x.as<C>(), rows, cols, x.strides[0], x.strides[1]};
    if (direct.has_unit_step()) return direct;
  }
  copy(x, View(buffer, dtype_of<C>, x.device, {rows, cols}, {cols, 1}));
  return row_major<const C>(buffer, rows, cols);
}

template <class C>
void compute_tile(const Tiles& t, std::int64_t tile, const MatmulArgs& args, char* scratch) {
  const auto& [a, b, bias, y, activation, z] = args;
  const Scratch<C> s(t);
  auto* sum = reinterpret_cast<C*>(scratch);
  auto* a_buffer = reinterpret_cast<C*>(scratch + s.y);
  auto* b_buffer = reinterpret_cast<C*>(scratch + s.y + s.a);
  void* packed = scratch + s.y + s.a + s.b;
  const std::int64_t i = tile / (t.down * t.across);
  const std::int64_t row = tile / t.across % t.down * tile_rows, col = tile % t.across * tile_cols;
  const std::int64_t rows = std::min(tile_rows, t.m - row), cols = std::min(tile_cols, t.n - col);

  const View sum_view(sum, dtype_of<C>, y.device, {rows, cols}, {cols, 1});
  if (bias.defined())
    copy(block(bias, i, row, col, rows, cols), sum_view);
  else
    std::fill_n(sum, rows * cols, C{0});
  for (std::int64_t k = 0; k < t.k; k += tile_depth) {
    const std::int64_t depth = std::min(tile_depth, t.k - k);
    gemm<C>(load(block(a, i, row, k, rows, depth), a_buffer), load(block(b, i, k, col, depth, cols), b_buffer),
            row_major(sum, rows, cols), packed);
  }
  const View before = block(args.before_activation(), i, row, col, rows, cols);
  copy(sum_view, before);
  activate(activation, before, block(y, i, row, col, rows, cols));
}

Plan plan(const MatmulArgs& args) {
  const Tiles tiles(args);
  return visit_floating(args.y.dtype, [&](auto zero) -> Plan {
    return {Scratch<compute_t<decltype(zero)>>(tiles).bytes() * static_cast<std::size_t>(tiles.threads())};
  });
}

void matmul(const MatmulArgs& args, const Plan&, Workspace ws) {
  const Tiles tiles(args);
  if (tiles.count() == 0) return;
  const std::int64_t slices = tiles.threads();
  visit_floating(args.y.dtype, [&](auto zero) {
    using C = compute_t<decltype(zero)>;
    const std::size_t slice_bytes = ws.bytes / static_cast<std::size_t>(slices);
    parallel_for(slices, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slice = begin; slice < end; ++slice)
        for (std::int64_t tile = tiles.count() * slice / slices; tile < tiles.count() * (slice + 1) / slices; ++tile)
          compute_tile<C>(tiles, tile, args,
                          static_cast<char*>(ws.data) + static_cast<std::size_t>(slice) * slice_bytes);
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
