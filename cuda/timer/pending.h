#pragma once
#include <cuda_runtime_api.h>

#include <vector>

namespace bytetape::cuda {

/// The work so far of all streams of all devices in use: an event behind the last work of each stream. Any thread may
/// call the functions, one at a time. They leave its current device as it is, and give no device a context.
class PendingWork {
 public:
  PendingWork() = default;
  ~PendingWork() { clear(); }
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;

  /// Replaces the work by what was launched until now. Streams of a device that failed are left out.
  void mark();
  /// Whether the devices have done the work.
  bool is_done();
  /// Waits on the host until the devices have done the work.
  void wait();
  void clear();

 private:
  struct Mark {
    int device;
    cudaEvent_t event;
  };
  std::vector<Mark> marks_;
};

}  // namespace bytetape::cuda
