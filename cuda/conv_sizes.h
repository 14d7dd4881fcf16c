#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/conv_sizes.h"
#include "bytetape/cuda/precision.h"

/// What planning and launching a convolution agree on: host code without the toolkit.
namespace bytetape::cuda {

/// A convolution is one trilinear form of x, weight and y; each map makes one of them from the other two.
enum class ConvMap : std::int64_t { forward, input_grad, weight_grad };

/// How the columns of y (n h' w', o) are summed: thread blocks of `across` x `down` threads, each thread on `lanes`
/// columns; where there is more than one split of the rows, a second kernel adds their sums.
struct ColumnSums {
  static constexpr int threads = 256;
  std::int64_t rows, columns;
  int lanes, across, down;
  std::int64_t blocks, splits;

  ColumnSums(const ConvSizes& s, bool channels_last) : rows(s.n * s.oh * s.ow), columns(s.o) {
    constexpr std::int64_t rows_a_thread = 8, most_blocks = 1024;
    lanes = 16 / static_cast<int>(size_of(s.dtype));
    if (!channels_last || columns % lanes != 0) lanes = 1;
    across = static_cast<int>(std::bit_ceil(std::min<std::uint64_t>(columns / lanes, 32)));
    down = threads / across;
    blocks = (columns + lanes * across - 1) / (lanes * across);
    splits =
        std::clamp<std::int64_t>(rows / (down * rows_a_thread), 1, std::max<std::int64_t>(most_blocks / blocks, 1));
  }
  std::size_t bytes(DType t) const {
    return splits == 1 ? 0 : static_cast<std::size_t>(splits * columns) * size_of(accumulated(t));
  }
};

/// Where things lie in a launch's workspace, in bytes from its start.
struct ConvWorkspace {
  std::size_t weight = 0;   ///< of it or its gradient, in the order of cuDNN's kernels: (o, kh, kw, c / groups)
  std::size_t sums = 0;     ///< of ColumnSums
  std::size_t scratch = 0;  ///< cuDNN's, or im2col's
  std::size_t total = 0;

  /// `channels_last` is y's layout, where its columns are summed.
  ConvWorkspace(const ConvSizes& s, ConvMap map, bool sums_columns = false, bool channels_last = true);
};

/// What cuDNN may ask for, from what the engines that its heuristics put first do ask for on an H100 (cuDNN 9.19).
inline std::size_t cudnn_workspace(const ConvSizes& s) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  if (s.dtype == DType::f64) return 0;
  const auto tensors = static_cast<std::size_t>(s.x_numel() + s.y_numel() + s.weights()) * size_of(s.dtype);
  // True f32 runs on engines for row-major images, which turn all tensors around.
  if (s.dtype == DType::f32 && !allow_tf32()) return std::min(tensors + mib, 256 * mib);
  // Tensor cores take channels by 16 bytes: others are padded in copies, while these at most split sums.
  const std::int64_t unit = 16 / static_cast<std::int64_t>(size_of(s.dtype));
  const bool is_whole = s.groups == 1 && s.c % unit == 0 && s.o % unit == 0;
  return is_whole ? std::min(4 * tensors + mib / 16, 4 * mib) : std::min(2 * tensors + 2 * mib, 64 * mib);
}

}  // namespace bytetape::cuda
