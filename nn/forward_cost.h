#pragma once
#include <map>

#include "bytetape/autograd/op_observer.h"
#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ledger/names.h"

namespace bytetape::nn {

/// Estimates the time that the ops of each module take in forward, while it lives. An op takes the time of its
/// floating-point operations or of its bytes, whichever is longer, on a typical device of the type. Only ratios of
/// these times mean something.
class ForwardCost final : public OpObserver {
 public:
  [[nodiscard]] explicit ForwardCost(DeviceType type);
  void end(const OpCall& call) noexcept override;
  /// Seconds by module path of the ledger, without those of modules inside.
  const std::map<memory::NameId, double>& by_module() const { return by_module_; }

 private:
  const double flop_per_s_, bytes_per_s_;
  std::map<memory::NameId, double> by_module_;
};

}  // namespace bytetape::nn
