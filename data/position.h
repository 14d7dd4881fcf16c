#pragma once
#include <cstdint>
#include <utility>

#include "bytetape/core/error.h"

namespace bytetape::data {

/// Which epoch a loader starts next, and behind how many of its batches.
struct Position {
  std::int64_t epoch = 0, batch = 0;

  /// Throws ValueError where epoch < 0, and unless 0 <= batch <= batches, of which the epoch has so many.
  static Position in(std::int64_t epoch, std::int64_t batch, std::int64_t batches) {
    check<ValueError>(epoch >= 0, "epochs count from 0, and epoch ", epoch, " is none to start at");
    check<ValueError>(batch >= 0 && batch <= batches, "an epoch has ", batches, " batches, and batch ", batch,
                      " is none to start at");
    return {epoch, batch};
  }
  /// What it is; then it is the start of the epoch after that.
  Position take() { return std::exchange(*this, {epoch + 1, 0}); }
};

}  // namespace bytetape::data
