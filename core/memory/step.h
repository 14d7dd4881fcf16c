#pragma once
#include <cstdint>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

class Allocator;

/// Marks a training or evaluation step on a device's timeline, and sets the thread's phase to forward:
///
///     for (auto [x, t] : loader) {
///       const memory::Step step;
///       cross_entropy(net(x), t).backward();
///       optimizer.step();
///     }
///
/// Steps of one thread on one device do not nest. Several threads may have steps open. Events belong to the step of
/// their thread. A thread without one, such as a loader's worker, adds to the step that has been open longest. If
/// another thread destroys a step, the step ends and no thread's phase changes.
class Step {
 public:
  /// Begins a step. `number` must be at least 1, or 0 (default) for the device's last number + 1, from 1.
  /// Throws ValueError if the thread has a step open on this device.
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
