#pragma once
#include "bytetape/core/intrusive.h"

namespace bytetape {
namespace detail {
class LastForward;
}

/// Remembers which saved tensors left the device during earlier forward passes, so that later ones copy only those to
/// the host. A part of SaveOnCpuOptions. A copy remembers nothing, so equal programs take equal memory.
class OffloadHistory {
 public:
  OffloadHistory();
  OffloadHistory(const OffloadHistory&) : OffloadHistory() {}
  OffloadHistory& operator=(const OffloadHistory&) { return *this; }
  ~OffloadHistory();

 private:
  friend class SaveOnCpu;
  Ref<detail::LastForward> last_;
};

}  // namespace bytetape
