#pragma once
// The partition of a reduction into blocks of threads. It depends on geometry and dtype alone. So the plan and the
// launch, which both call this, agree, and results have the same bits on every GPU.
#include "bytetape/core/view.h"
#include "bytetape/core/walk.h"

namespace bytetape::cuda {

/// The neighbouring inputs of one output that a thread loads at once: 16 bytes, but at most 8 elements.
constexpr int row_lanes(std::size_t element) { return element >= 2 ? static_cast<int>(16 / element) : 8; }
/// The neighbouring outputs that a thread keeps.
constexpr int column_lanes(std::size_t element) { return element >= 4 ? static_cast<int>(16 / element) : 4; }
/// The number of steps whose loads a thread issues together.
inline constexpr int reduce_unroll = 4;

/// The layout of y[i] = the reduction of `inputs` elements of x. If x's innermost dim is reduced, the inputs of an
/// output are a row, and threads are side by side along it. If it is kept, they are a column, and threads are side by
/// side across columns. In both cases `along` threads, a power of two, share the inputs of an output.
struct ReduceLayout {
  Walk<2> kept;     // of x and y
  Walk<1> reduced;  // of x
  std::int64_t outputs = 1, inputs = 1;
  bool is_by_column = false;
  int lanes = 1;
  int along = 1;
  int across = 1;           // threads side by side along the innermost kept dim; a power of two
  int threads = 256;        // threads of a block
  std::int64_t blocks = 1;  // blocks for all outputs
  std::int64_t splits = 1;  // parts of the inputs, each with its own block
  std::int64_t chunk = 1;   // inputs of a part
};

/// Plans a reduction. y has x's rank, size 1 in every reduced dim, and at least one element. `may_split`: whether
/// partial results can be stored for a second reduction.
ReduceLayout reduce_layout(const ConstView& x, const View& y, bool may_split);
/// Plans the second reduction: of row-major (splits, outputs), with elements of `element` bytes, into y.
ReduceLayout second_layout(const ReduceLayout& first, std::size_t element);

}  // namespace bytetape::cuda
