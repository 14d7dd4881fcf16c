#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "bytetape/core/memory/current_scope.h"

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

/// The streams of one device, each made when it is first used; or what records their work, as one graph. The device is
/// the thread's current one in every call.
class Streams {
 public:
  Streams() = default;
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t get(int number) {
    const cudaStream_t made = all_[static_cast<std::size_t>(number)].stream.load(std::memory_order_acquire);
    return made ? made : make_or_throw(number);
  }
  /// Whether no other one was used yet.
  bool is_only(int number) const;
  /// As Backend says.
  void order(int from, int to) noexcept;
  /// What `number` is given from now on waits for the event as it is now.
  void order_behind(cudaEvent_t event, int number) noexcept;
  /// The same from all others to this one; or from this one to all others, and to those of `also`, a bit for each.
  void join(int number) noexcept;
  void fork(int number, std::uint32_t also) noexcept;
  /// Those that were used, a bit for each.
  std::uint32_t used() const;
  /// Waits for them all.
  void synchronize() const;

  /// From now on they record what they are given, beginning with stream `number`, which the others join when they are
  /// first used.
  void begin_recording(int number);
  /// What they recorded. The caller destroys it.
  cudaGraph_t end_recording();

 private:
  struct One {
    std::atomic<cudaStream_t> stream{nullptr};
    cudaEvent_t event = nullptr;  // where order() last asked another one to wait for
  };
  cudaStream_t make_or_throw(int number);
  cudaError_t make(One& one) noexcept;

  std::array<One, memory::stream_count> all_{};
  std::mutex mutex_;         // of making and ordering
  One* recorder_ = nullptr;  // that begins and ends what is being recorded
};
/// Those of device number `index`, which becomes the thread's current one.
Streams& streams_of(int index);

/// What this thread gives device number `index` goes to these streams in place of the device's; null elsewhere.
struct RecordingStreams {
  Streams* streams = nullptr;
  int index = 0;
};
inline constinit thread_local RecordingStreams recording{};

/// How far the streams of one device have come, in numbers.
class Marks {
 public:
  /// As Backend says, of `stream`.
  std::uint64_t mark(cudaStream_t stream);
  void wait_for(std::uint64_t mark) noexcept;
  void order_behind(std::uint64_t mark, Streams& streams, int to) noexcept;

 private:
  void drop_first();

  std::mutex mutex_;
  std::deque<cudaEvent_t> marks_;  // those not known to be passed, the oldest first
  std::uint64_t passed_ = 0;       // the last one before them
  std::vector<cudaEvent_t> spare_;
};

}  // namespace bytetape::cuda
