#pragma once
// The partition of sums over the rows of a matrix into blocks of threads. It depends on geometry and dtype alone. So
// the plan and the launch agree, and results have the same bits on every GPU.
#include "bytetape/core/view.h"

namespace bytetape::cuda {

struct BiasGradLayout {
  static constexpr int threads = 256, warp = 32;
  static constexpr int resident = 3;  // thread blocks on a multiprocessor at a time, limited by registers
  static constexpr int unroll = 4;    // rows that a thread loads at once
  /// The neighbouring columns of a thread: 16 bytes.
  static constexpr int lanes(std::size_t element) { return static_cast<int>(16 / element); }

  std::int64_t rows, columns;
  int across = 1;           // threads side by side; a power of two, at most a warp
  std::int64_t blocks = 0;  // blocks side by side, for all columns
  std::int64_t splits = 1;  // parts of the rows, each with its own blocks
  std::int64_t chunk = 0;   // rows of a part

  explicit BiasGradLayout(const ConstView& gy);
  constexpr int along() const { return threads / across; }
};

}  // namespace bytetape::cuda
