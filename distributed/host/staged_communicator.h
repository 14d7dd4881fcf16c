#pragma once
#include <memory>
#include <utility>

#include "bytetape/core/kernels/collective.h"

namespace bytetape::dist {

/// Runs collectives on a GPU's memory by way of the host's, where NCCL cannot: without it, or if ranks share a GPU.
/// Each collective waits for the device. Not for captured steps.
class StagedCommunicator final : public Communicator {
 public:
  /// `host` connects the same ranks, and must outlive this object.
  explicit StagedCommunicator(Communicator& host) : host_(host) {}
  void run(const CollectiveArgs& args, Workspace ws) override;

 private:
  Communicator& host_;
};

}  // namespace bytetape::dist
