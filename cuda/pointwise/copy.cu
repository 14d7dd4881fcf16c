// Copies. Transposing copies (channels-last to row-major, a transposed matrix) go through tiles in shared memory, so
// that they read and write whole cache lines. All others are elementwise.
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/optim/widen.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class To>
struct Convert {
  template <class From>
  __device__ auto operator()(From v) const {
    if constexpr (std::is_arithmetic_v<To>)
      return static_cast<To>(v);
    else
      return static_cast<float>(v);
  }
};

struct Same {
  template <class T>
  __device__ T operator()(T v) const {
    return v;
  }
};

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

template <int n, class T>
__device__ void read_tile(Tile<T>& tile, const T* x, std::int64_t step, int rows, int columns) {
  Packed<T, n> read[edge<T> * edge<T> / n / block_size];  // issues all loads before the first use
  for_vectors<T, n>(columns, rows,
                    [&](int v, int column, int row) { read[v] = Packed<T, n>::load(x + column * step + row); });
  for_vectors<T, n>(columns, rows, [&](int v, int column, int row) {
    for (int k = 0; k < n; ++k) tile[column][row + k] = read[v].values[k];
  });
}

template <int n, class T>
__device__ void write_tile(const Tile<T>& tile, T* y, std::int64_t step, int rows, int columns) {
  for_vectors<T, n>(rows, columns, [&](int, int row, int column) {
    Packed<T, n> packed;
    for (int k = 0; k < n; ++k) packed.values[k] = tile[column + k][row];
    packed.store(y + row * step + column);
  });
}

/// Each block copies one tile.
template <class T>
__global__ void __launch_bounds__(block_size) transpose_kernel(Transposition t, const T* x, T* y) {
  __shared__ Tile<T> tile;
  const std::uint32_t above = t.column_tiles.quotient(blockIdx.x), batch = t.row_tiles.quotient(above);
  const std::int64_t column = std::int64_t{blockIdx.x - above * t.column_tiles.value} * edge<T>,
                     row = std::int64_t{above - batch * t.row_tiles.value} * edge<T>;
  const int rows = static_cast<int>(min(t.rows - row, std::int64_t{edge<T>})),
            columns = static_cast<int>(min(t.columns - column, std::int64_t{edge<T>}));
  std::int64_t offsets[2];
  t.batch.find(batch, offsets);
  y += offsets[0] + row * t.y_step + column;
  x += offsets[1] + column * t.x_step + row;
  t.x_packs ? read_tile<lanes<T>>(tile, x, t.x_step, rows, columns) : read_tile<1>(tile, x, t.x_step, rows, columns);
  __syncthreads();
  t.y_packs ? write_tile<lanes<T>>(tile, y, t.y_step, rows, columns) : write_tile<1>(tile, y, t.y_step, rows, columns);
}

/// Transposes if two dims change places and are long enough. Otherwise does nothing and returns false.
template <class T>
bool transpose(const ConstView& x, const View& y) {
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
  transpose_kernel<<<static_cast<unsigned>(tiles), block_size, 0, stream_of(y.device)>>>(t, x.as<T>(), y.as<T>());
  check_launch();
  return true;
}

template <class T>
void move_as(const ConstView& x, const View& y) {
  if (x.is_constant() || same_layout(y.shape, y.strides, x.strides) || y.numel() == 0 || !transpose<T>(x, y))
    elementwise<T, T>(Same(), y, x);
}

// Copies without a change of dtype move bits, so there is one kernel per element size.
void move(const ConstView& x, const View& y) {
  switch (size_of(y.dtype)) {
    case 8:
      return move_as<std::uint64_t>(x, y);
    case 4:
      return move_as<std::uint32_t>(x, y);
    case 2:
      return move_as<std::uint16_t>(x, y);
    default:
      return move_as<std::uint8_t>(x, y);
  }
}

void copy(const ConstView& x, const View& y) {
  if (x.dtype == y.dtype) return move(x, y);
  visit(y.dtype, [&](auto to) {
    visit(x.dtype, [&](auto from) {
      using To = decltype(to);
      using From = decltype(from);
      if constexpr (!std::is_same_v<To, From>) elementwise<To, From>(Convert<To>(), y, x);
    });
  });
}

void fill(Scalar value, const View& y) { move(ConstView::constant(value, y.dtype, y.device, y.shape), y); }

template <class T, class N>
__global__ void arange_kernel(T* y, std::int64_t stride, std::int64_t n, N first, N each) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * block_size) {
    const N value = first + static_cast<N>(i) * each;
    if constexpr (std::is_integral_v<N>)  // unsigned: products may wrap, sums are in range
      y[i * stride] = detail::stored<T>(Convert<T>()(static_cast<std::int64_t>(value)));
    else
      y[i * stride] = detail::stored<T>(Convert<T>()(value));
  }
}

void arange(Scalar start, Scalar step, const View& y) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  visit(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto first, auto each) {
      arange_kernel<<<blocks_for(n, y.device), block_size, 0, stream>>>(y.as<T>(), y.strides[0], n, first, each);
    };
    if (start.is_integral() && step.is_integral())
      launch(start.to<std::uint64_t>(), step.to<std::uint64_t>());
    else
      launch(start.to<double>(), step.to<double>());
  });
  check_launch();
}

}  // namespace

const CopyKernels& copy_kernels() {
  static const CopyKernels all{
      .fill = fill,
      .copy = copy,
      .copy_all = copy_all,
      .widen_all = widen_all,
      .arange = arange,
  };
  return all;
}

}  // namespace bytetape::cuda
