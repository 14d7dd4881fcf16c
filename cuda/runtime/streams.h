#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "bytetape/core/memory/ledger/current_scope.h"

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
    return made && failure_.load(std::memory_order_relaxed) == cudaSuccess ? made : make_or_throw(number);
  }
  /// Whether no other one was used yet.
  bool is_only(int number) const;
  /// As Backend says. A failure that cannot be made good by waiting here is thrown by the next get().
  void order(int from, int to) noexcept;
  /// What `number` is given from now on waits for the event, recorded on stream `from`, as it is now.
  void order_behind(cudaEvent_t event, int from, int number) noexcept;
  /// Those that `number` has waited for, also by way of others, since it forgot them; a bit for each.
  std::uint32_t waited_for(int number) const {
    return waits_[static_cast<std::size_t>(number)].load(std::memory_order_relaxed);
  }
  /// The same, and forgets them.
  std::uint32_t take_waits(int number) noexcept {
    return waits_[static_cast<std::size_t>(number)].exchange(0, std::memory_order_relaxed);
  }
  /// Counts these among them.
  void note_waits(int number, std::uint32_t streams) noexcept {
    waits_[static_cast<std::size_t>(number)].fetch_or(streams, std::memory_order_relaxed);
  }
  /// The same from all others to this one; or from this one to all others, and to those of `also`, a bit for each.
  void join(int number) noexcept;
  void fork(int number, std::uint32_t also) noexcept;
  /// The next get() or synchronize() throws it.
  void note_failure(cudaError_t status) noexcept { failure_ = status; }
  /// Those that were used, a bit for each.
  std::uint32_t used() const;
  /// Waits for them all.
  void synchronize();

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

  /// `second` is behind what `first` was given, by `status`, or else by waiting here.
  void settle(cudaError_t status, int first, int second) noexcept;
  int number_of(const One& one) const { return static_cast<int>(&one - all_.data()); }

  std::array<One, memory::stream_count> all_{};
  std::array<std::atomic<std::uint32_t>, memory::stream_count> waits_{};
  std::atomic<cudaError_t> failure_{cudaSuccess};  // of an order that nobody could be told of yet
  std::mutex mutex_;                               // of making and ordering
  One* recorder_ = nullptr;                        // that begins and ends what is being recorded
};
/// Those of device number `index`, which becomes the thread's current one.
Streams& streams_of(int index);
/// The same, or what records the thread's work in their place.
Streams& streams_for_work(int index);

/// What this thread gives device number `index` goes to these streams in place of the device's; null elsewhere.
struct RecordingStreams {
  Streams* streams = nullptr;
  int index = 0;
  std::vector<std::shared_ptr<const void>>* kept = nullptr;  // lives as long as what is recorded
};
inline constinit thread_local RecordingStreams recording{};
/// Keeps what this thread's work on device number `index` needs, if that is being recorded.
inline void keep_for_recording(int index, const std::shared_ptr<const void>& needed) {
  if (recording.streams && recording.index == index) recording.kept->push_back(needed);
}

/// How far the streams of one device have come, in numbers.
class Marks {
 public:
  /// As Backend says, of stream `number`.
  std::uint64_t mark(Streams& streams, int number);
  void wait_for(std::uint64_t mark) noexcept;
  void order_behind(std::uint64_t mark, Streams& streams, int to) noexcept;

 private:
  void drop_first();

  std::mutex mutex_;
  struct Mark {
    cudaEvent_t event;
    int stream;
  };
  std::deque<Mark> marks_;    // those not known to be passed, the oldest first
  std::uint64_t passed_ = 0;  // the last one before them
  std::vector<cudaEvent_t> spare_;
};

}  // namespace bytetape::cuda
