#pragma once
#include <cstdint>
#include <utility>

#include "bytetape/core/error.h"

namespace bytetape::data {

/// Which epoch a loader starts next, and behind how many of its batches.
struct Position {
  std::int64_t epoch = 0, batch = 0;

  static constexpr std::int64_t epochs = std::int64_t{1} << 22;  // that have draws of their own: seeds.h

  /// Throws ValueError unless 0 <= epoch < epochs, and 0 <= batch <= batches, of which the epoch has so many.
  static Position in(std::int64_t epoch, std::int64_t batch, std::int64_t batches) {
    check<ValueError>(epoch >= 0 && epoch < epochs, "epochs count from 0 to ", epochs - 1, ", and epoch ", epoch,
                      " is none to start at");
    check<ValueError>(batch >= 0 && batch <= batches, "an epoch has ", batches, " batches, and batch ", batch,
                      " is none to start at");
    return {epoch, batch};
  }
  /// What it is; then it is the start of the epoch after that.
  Position take() { return std::exchange(*this, {epoch + 1, 0}); }
};

}  // namespace bytetape::data
