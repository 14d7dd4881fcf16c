#pragma once
#include <cuda_runtime_api.h>

#include <vector>

namespace bytetape::cuda {

/// The work so far of all streams of all devices in use: an event behind the last work of each stream.
class PendingWork {
 public:
  PendingWork() = default;
  ~PendingWork() { clear(); }
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;

  /// Replaces the work by what was launched until now. Streams of a device that failed are left out.
  void mark();
  bool is_empty() const { return events_.empty(); }
  /// Whether the devices have done the work.
  bool is_done();
  /// Waits on the host until the devices have done the work.
  void wait();
  void clear();

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace bytetape::cuda
