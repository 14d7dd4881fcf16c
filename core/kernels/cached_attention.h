#pragma once
#include <cstdint>

#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// The largest head size of cached_attention().
inline constexpr std::int64_t most_cached_columns = 256;

// Attention of new tokens to a cache of keys and values. q and y are (n, h, t, d), k and v (n, g, t, d), keys and
// values (n, g, capacity, d), all of one floating dtype and with any strides. g divides h, and head i reads head
// i / (h / g). positions is i64 (n).

/// Writes k and v into keys and values at [position, position + t) of each row, and computes y, the attention of new
/// token i to the row's tokens 0 to position + i. Sums are in the compute type. A position that is not in
/// [0, capacity - t] is a fault (core/device/fault.h), after which nothing is written to the cache.
struct CachedAttentionArgs {
  ConstView q, k, v;
  View keys, values;
  ConstView positions;
  double scale;
  View y;

  /// The positions must be below this.
  std::int64_t bound() const { return keys.shape[2] - q.shape[2] + 1; }
  /// Two products with the whole cache, because positions are not on the host.
  memory::Work flop() const { return product_work(q.dtype, 2 * q.numel() * keys.shape[2]); }
};

struct CachedAttentionKernels {
  void (*cached_attention)(const CachedAttentionArgs& args);
};

}  // namespace bytetape
