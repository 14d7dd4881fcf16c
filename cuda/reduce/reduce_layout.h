#pragma once
// How a reduction is cut into blocks of threads. By geometry and dtype alone: so the plan and the launch, which both
// ask for it, agree, and results have the same bits on every GPU.
#include "bytetape/core/view.h"
#include "bytetape/core/walk.h"

namespace bytetape::cuda {

/// Neighbouring inputs of one output that a thread takes at once: 16 bytes where that is no more than 8 elements.
constexpr int row_lanes(std::size_t element) { return element >= 2 ? static_cast<int>(16 / element) : 8; }
/// Neighbouring outputs that a thread keeps.
constexpr int column_lanes(std::size_t element) { return element >= 4 ? static_cast<int>(16 / element) : 4; }
/// Steps that a thread takes at once, so that their loads are under way together.
inline constexpr int reduce_unroll = 4;

/// y[i] = the reduction of `inputs` elements of x. Where x's innermost dim is reduced, an output's inputs are a row,
/// and threads stand side by side along it. Where it is kept, they are a column: threads stand side by side across
/// columns. In either case `along` threads, a power of two, share the inputs of an output.
struct ReduceLayout {
  Walk<2> kept;     // of x and y
  Walk<1> reduced;  // of x
  std::int64_t outputs = 1, inputs = 1;
  bool is_by_column = false;
  int lanes = 1;
  int along = 1;
  int across = 1;           // threads side by side along the innermost kept dim; a power of two
  int threads = 256;        // of a block
  std::int64_t blocks = 1;  // for all outputs
  std::int64_t splits = 1;  // of the inputs, each in a block of its own
  std::int64_t chunk = 1;   // inputs of a split
};

/// y has x's rank, with 1 in every reduced dim, and at least one element. Split only where results can be kept until a
/// second reduction.
ReduceLayout reduce_layout(const ConstView& x, const View& y, bool may_split);
/// The second reduction: of row-major (splits, outputs), elements of `element` bytes, into y.
ReduceLayout second_layout(const ReduceLayout& first, std::size_t element);

}  // namespace bytetape::cuda
