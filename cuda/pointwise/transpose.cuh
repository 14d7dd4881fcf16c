#pragma once
// Transposing copies (channels-last to row-major, a transposed matrix) go through tiles in shared memory, so that they
// read and write whole cache lines.
#include <algorithm>

#include "bytetape/core/view.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/index.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda::transposing {

/// A batch of transpositions y[row * y_step + column] = x[column * x_step + row]. y is dense along columns, x along
/// rows.
struct Transposition {
  Steps<2, std::uint32_t> batch;
  Divisor<std::uint32_t> row_tiles, column_tiles;
  std::int64_t rows, columns, y_step, x_step;
  bool y_packs, x_packs;  // whether y and x are accessed in vectors of 16 bytes
};

constexpr std::int64_t least = 8;  // least rows and columns; with fewer, tiles would be almost empty
template <class T>
constexpr int edge = sizeof(T) < 8 ? 64 : 32;  // rows and columns of a tile
template <class T>
constexpr int padding = sizeof(T) < 4 ? 4 / sizeof(T) : 1;  // avoids bank conflicts between the columns of a tile
template <class T>
constexpr int lanes = 16 / sizeof(T);
template <class T>
using Tile = T[edge<T>][edge<T> + padding<T>];

/// Calls at(v, line, place) for each vector of this thread, of n elements, in a tile with `lines` lines of `width`
/// elements. v counts the thread's vectors.
template <class T, int n, class At>
__device__ void for_vectors(int lines, int width, const At& at) {
  constexpr int in_line = edge<T> / n;
#pragma unroll
  for (int v = 0; v < edge<T> * in_line / block_size; ++v) {
    const int index = v * block_size + static_cast<int>(threadIdx.x), line = index / in_line,
              place = index % in_line * n;
    if (line < lines && place < width) at(v, line, place);
  }
}

template <int n, class T, class F>
__device__ void read_tile(const F& f, Tile<T>& tile, const T* x, std::int64_t first, std::int64_t step, int rows,
                          int columns) {
  Packed<T, n> read[edge<T> * edge<T> / n / block_size];  // issues all loads before the first use
  for_vectors<T, n>(columns, rows,
                    [&](int v, int column, int row) { read[v] = Packed<T, n>::load(x + first + column * step + row); });
  for_vectors<T, n>(columns, rows, [&](int v, int column, int row) {
    f.of_x(first + column * step + row, read[v]);
    for (int k = 0; k < n; ++k) tile[column][row + k] = read[v].values[k];
  });
}

template <int n, class T, class F>
__device__ void write_tile(const F& f, const Tile<T>& tile, T* y, std::int64_t first, std::int64_t step, int rows,
                           int columns) {
  for_vectors<T, n>(rows, columns, [&](int, int row, int column) {
    Packed<T, n> packed;
    for (int k = 0; k < n; ++k) packed.values[k] = tile[column + k][row];
    f.of_y(first + row * step + column, packed);
    packed.store(y + first + row * step + column);
  });
}

/// Each block moves one tile.
template <class T, class F>
__global__ void __launch_bounds__(block_size) transpose_kernel(Transposition t, F f, const T* x, T* y) {
  __shared__ Tile<T> tile;
  f.start();
  const std::uint32_t above = t.column_tiles.quotient(blockIdx.x), batch = t.row_tiles.quotient(above);
  const std::int64_t column = std::int64_t{blockIdx.x - above * t.column_tiles.value} * edge<T>,
                     row = std::int64_t{above - batch * t.row_tiles.value} * edge<T>;
  const int rows = static_cast<int>(min(t.rows - row, std::int64_t{edge<T>})),
            columns = static_cast<int>(min(t.columns - column, std::int64_t{edge<T>}));
  std::int64_t offsets[2];
  t.batch.find(batch, offsets);
  const std::int64_t to = offsets[0] + row * t.y_step + column, from = offsets[1] + column * t.x_step + row;
  t.x_packs ? read_tile<lanes<T>>(f, tile, x, from, t.x_step, rows, columns)
            : read_tile<1>(f, tile, x, from, t.x_step, rows, columns);
  __syncthreads();
  t.y_packs ? write_tile<lanes<T>>(f, tile, y, to, t.y_step, rows, columns)
            : write_tile<1>(f, tile, y, to, t.y_step, rows, columns);
}

/// Transposes if two dims change places and are long enough. Otherwise does nothing and returns false.
/// f.start() is called first by each thread. f.of_x(i, v) changes what was read from x + i, and f.of_y(i, v) what is
/// written to y + i. v.values has one element or several.
template <class T, class F>
bool transpose(const F& f, const ConstView& x, const View& y) {
  Walk<2> walk(y.shape, {&y.strides, &x.strides});
  Strides &to = walk.strides[0], &from = walk.strides[1];
  const int inner = walk.shape.size() - 1;
  if (inner < 1 || to[inner] != 1 || from[inner] <= 1 || walk.shape[inner] < least) return false;
  int dense = 0;  // the dim in which x is dense
  while (dense < inner && (from[dense] != 1 || walk.shape[dense] < least)) ++dense;
  if (dense == inner) return false;

  const std::int64_t rows = walk.shape[dense], columns = walk.shape[inner], y_step = to[dense], x_step = from[inner];
  for (const int d : {inner, dense}) {
    walk.shape.erase(d);
    to.erase(d);
    from.erase(d);
  }
  const std::int64_t row_tiles = (rows + edge<T> - 1) / edge<T>, column_tiles = (columns + edge<T> - 1) / edge<T>,
                     tiles = numel(walk.shape) * row_tiles * column_tiles;
  if (tiles >= index_limit) return false;
  const auto packs = [&](const ConstView& v, const Strides& strides, std::int64_t length, std::int64_t step) {
    return is_aligned(v) && length % lanes<T> == 0 && step % lanes<T> == 0 &&
           std::ranges::all_of(strides, [](std::int64_t s) { return s % lanes<T> == 0; });
  };
  const Transposition t{.batch = Steps<2, std::uint32_t>(walk),
                        .row_tiles = Divisor(static_cast<std::uint32_t>(row_tiles)),
                        .column_tiles = Divisor(static_cast<std::uint32_t>(column_tiles)),
                        .rows = rows,
                        .columns = columns,
                        .y_step = y_step,
                        .x_step = x_step,
                        .y_packs = packs(y, to, columns, y_step),
                        .x_packs = packs(x, from, rows, x_step)};
  transpose_kernel<<<static_cast<unsigned>(tiles), block_size, 0, stream_of(y.device)>>>(t, f, x.as<T>(), y.as<T>());
  check_launch();
  return true;
}

}  // namespace bytetape::cuda::transposing
