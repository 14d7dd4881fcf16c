#include <algorithm>

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/matrix_block.h"
#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu::portable {
namespace {

// y is cut into tiles of a fixed size, so that the number of threads does not change the bits.
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

/// The scratch of one thread: its tile of y, blocks of a and b converted to C, and the packed blocks of gemm().
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

template <class C>
void compute_tile(const Tiles& t, std::int64_t tile, const MatmulArgs& args, char* scratch) {
  const auto& [a, b, bias, y, activation, z, accumulates] = args;
  const Scratch<C> s(t);
  auto* sum = reinterpret_cast<C*>(scratch);
  auto* a_buffer = reinterpret_cast<C*>(scratch + s.y);
  auto* b_buffer = reinterpret_cast<C*>(scratch + s.y + s.a);
  void* packed = scratch + s.y + s.a + s.b;
  const std::int64_t i = tile / (t.down * t.across);
  const std::int64_t row = tile / t.across % t.down * tile_rows, col = tile % t.across * tile_cols;
  const std::int64_t rows = std::min(tile_rows, t.m - row), cols = std::min(tile_cols, t.n - col);

  const View sum_view = view_of(row_major(sum, rows, cols));
  const auto place = [&](const auto& x) { return matrix_block(x, {i}, row, col, rows, cols); };
  if (accumulates || bias.defined())
    copy(accumulates ? ConstView(place(y)) : place(bias), sum_view);
  else
    std::fill_n(sum, rows * cols, C{0});
  for (std::int64_t k = 0; k < t.k; k += tile_depth) {
    const std::int64_t depth = std::min(tile_depth, t.k - k);
    gemm<C>(load_block(matrix_block(a, {i}, row, k, rows, depth), a_buffer),
            load_block(matrix_block(b, {i}, k, col, depth, cols), b_buffer), row_major(sum, rows, cols), packed);
  }
  const View before = place(args.before_activation());
  copy(sum_view, before);
  activate(activation, before, place(y));
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
