#pragma once
// How the sums over the rows of a matrix are cut into blocks of threads. By geometry and dtype alone: so the plan and
// the launch agree, and results have the same bits on every GPU.
#include "bytetape/core/view.h"

namespace bytetape::cuda {

struct BiasGradLayout {
  static constexpr int threads = 256, warp = 32;
  static constexpr int resident = 3;  // thread blocks of a processor at a time, by registers
  static constexpr int unroll = 4;    // rows that a thread takes at once, so that their loads are under way together
  /// Neighbouring columns of a thread: 16 bytes.
  static constexpr int lanes(std::size_t element) { return static_cast<int>(16 / element); }

  std::int64_t rows, columns;
  int across = 1;           // threads side by side; a power of two, a warp's at the most
  std::int64_t blocks = 0;  // side by side, for all columns
  std::int64_t splits = 1;  // of the rows, each in blocks of its own
  std::int64_t chunk = 0;   // rows of a split

  explicit BiasGradLayout(const ConstView& gy);
  constexpr int along() const { return threads / across; }
};

}  // namespace bytetape::cuda
