#pragma once
#include <cstdint>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

class Allocator;

/// Marks one training (or evaluation) step on a device's timeline, and puts the thread into the forward phase:
///
///     for (auto [x, t] : loader) {
///       const memory::Step step;
///       cross_entropy(net(x), t).backward();
///       optimizer.step();
///     }
///
/// A thread's steps on one device do not nest: where one is open, a second one is a ValueError. Threads may have steps
/// open at the same time. Each is booked what its thread does; a thread without one (a loader's worker) adds to the
/// step that has been open longest. Where another thread destroys a step it ends too, and the phase of either thread
/// stays.
class Step {
 public:
  /// `number` >= 1; 0, the default, counts on from the device's last step, from 1.
  [[nodiscard]] explicit Step(Device device = default_device(), std::uint32_t number = 0);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  std::uint32_t number() const { return step_.number; }

 private:
  Allocator& allocator_;
  const OpenStep step_;
  const std::uint64_t thread_;
  const ScopeIds around_;
};

}  // namespace bytetape::memory
