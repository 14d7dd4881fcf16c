#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "bytetape/core/memory/scope.h"

namespace bytetape::cuda {

/// While it lives, this thread may ask the driver for memory, streams and how far they are though its work is being
/// recorded: what is asked is no part of that.
class OutsideRecording {
 public:
  OutsideRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideRecording(const OutsideRecording&) = delete;
  OutsideRecording& operator=(const OutsideRecording&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The streams of one device, each made when it is first used, and how far they have come. The device is the thread's
/// current one in every call.
class Streams {
 public:
  cudaStream_t get(int number) {
    const cudaStream_t made = all_[static_cast<std::size_t>(number)].stream.load(std::memory_order_acquire);
    return made ? made : make_or_throw(number);
  }
  /// Whether no other one was used yet.
  bool is_only(int number) const;
  /// As Backend says.
  void order(int from, int to) noexcept;
  std::uint64_t mark(int number);
  void wait_for(std::uint64_t mark) noexcept;
  /// Waits for them all.
  void synchronize() const;

 private:
  struct One {
    std::atomic<cudaStream_t> stream{nullptr};
    cudaEvent_t event = nullptr;  // where order() last asked another one to wait for
  };
  cudaStream_t make_or_throw(int number);
  cudaError_t make(One& one) noexcept;
  void drop_first_mark();

  std::array<One, memory::stream_count> all_{};
  std::mutex mutex_;  // of making and ordering

  std::mutex marks_mutex_;         // of what follows
  std::deque<cudaEvent_t> marks_;  // those not known to be passed, the oldest first
  std::uint64_t passed_ = 0;       // the last one before them
  std::vector<cudaEvent_t> spare_;
};

}  // namespace bytetape::cuda
