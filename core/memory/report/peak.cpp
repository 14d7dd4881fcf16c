#include "bytetape/core/memory/peak.h"

namespace bytetape::memory {

void PeakFinder::see(const Event& e) {
  ++seen_;
  if (e.kind == EventKind::free) {
    allocated_ -= e.bytes;
    is_at_peak_ = false;
  } else if (e.kind == EventKind::alloc) {
    allocated_ += e.bytes;
    if (allocated_ <= peak_) return;
    peak_ = allocated_;
    is_at_peak_ = true;
    end_ = seen_;
    reached_ = seen_ - 1;
  } else if (e.kind == EventKind::retag && is_at_peak_) {
    end_ = seen_;
  }
}

}  // namespace bytetape::memory
