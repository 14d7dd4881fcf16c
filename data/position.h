#pragma once
#include <cstdint>
#include <utility>

#include "bytetape/core/error.h"

namespace bytetape::data {

/// A position of a loader: the epoch that it starts next, and the number of its batches that are skipped.
struct Position {
  std::int64_t epoch = 0, batch = 0;

  static constexpr std::int64_t epochs = std::int64_t{1} << 22;  // epochs with separate random numbers (seeds.h)

  /// Returns a position in an epoch of `batches` batches.
  /// Throws ValueError unless 0 <= epoch < epochs and 0 <= batch <= batches.
  static Position in(std::int64_t epoch, std::int64_t batch, std::int64_t batches) {
    check<ValueError>(epoch >= 0 && epoch < epochs, "expected an epoch from 0 to ", epochs - 1, " to start at, got ",
                      epoch);
    check<ValueError>(batch >= 0 && batch <= batches, "expected a batch from 0 to ", batches, " to start at, got ",
                      batch);
    return {epoch, batch};
  }
  /// Returns the position, and moves it to the start of the following epoch.
  Position take() { return std::exchange(*this, {epoch + 1, 0}); }
};

}  // namespace bytetape::data
