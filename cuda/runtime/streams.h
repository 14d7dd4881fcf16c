#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "bytetape/core/memory/ledger/scope_ids.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/runtime/recorded_marks.h"

namespace bytetape::cuda {

/// Lets this thread call the driver for memory, streams and progress while its work is recorded. Such calls are not
/// part of the recording. The device must be the thread's current one. Otherwise device 0 would be used, and get a
/// context of half a GB.
class OutsideRecording {
 public:
  OutsideRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideRecording(const OutsideRecording&) = delete;
  OutsideRecording& operator=(const OutsideRecording&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The streams of one device, each made on first use; or the streams that record work as a graph. In every call the
/// device must be the thread's current one.
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
  /// Returns stream `number`, or null if it was not used yet. Throws nothing, also after a failure.
  cudaStream_t made(int number) const noexcept {
    return all_[static_cast<std::size_t>(number)].stream.load(std::memory_order_acquire);
  }
  /// Whether no other stream has been used yet.
  bool is_only(int number) const;
  /// Makes stream `to` wait for the work so far of stream `from` (Backend::order). If ordering fails and waiting on the
  /// host does not help, the next get() throws.
  void order(int from, int to) noexcept;
  /// Makes later work of stream `number` wait for `event`, as recorded on stream `from`.
  void wait_mark(cudaEvent_t event, int from, int number) noexcept;
  /// The streams that `number` has waited for, directly or through others, since the last take_waits(). A bit for each.
  std::uint32_t waited_for(int number) const {
    return waits_[static_cast<std::size_t>(number)].load(std::memory_order_relaxed);
  }
  /// Returns waited_for(number) and clears it.
  std::uint32_t take_waits(int number) noexcept {
    return waits_[static_cast<std::size_t>(number)].exchange(0, std::memory_order_relaxed);
  }
  /// Adds `streams` to waited_for(number).
  void note_waits(int number, std::uint32_t streams) noexcept {
    waits_[static_cast<std::size_t>(number)].fetch_or(streams, std::memory_order_relaxed);
  }
  /// join() makes stream `number` wait for all others. fork() makes all others, and the streams of the bit mask `also`,
  /// wait for `number`.
  void join(int number) noexcept;
  void fork(int number, std::uint32_t also) noexcept;
  /// Makes the next get() or synchronize() throw `status`.
  void note_failure(cudaError_t status) noexcept { failure_ = status; }
  /// The streams that were used, a bit for each.
  std::uint32_t used() const;
  /// Waits on the host for all streams.
  void synchronize();

  /// Begins to record work into a graph, on stream `number`. Other streams join the recording on first use.
  void begin_recording(int number);
  /// Ends the recording and returns its graph. The caller destroys it.
  cudaGraph_t end_recording();
  /// The marks in the recorded work.
  RecordedMarks& recorded_marks() { return recorded_marks_; }

 private:
  struct One {
    std::atomic<cudaStream_t> stream{nullptr};
    cudaEvent_t event = nullptr;  // the place that order() last made another stream wait for
  };
  cudaStream_t make_or_throw(int number);
  cudaError_t make(One& one) noexcept;

  /// Ensures that `second` runs after the work of `first`: waits on the host unless `status` is success.
  void settle(cudaError_t status, int first, int second) noexcept;
  int number_of(const One& one) const { return static_cast<int>(&one - all_.data()); }

  std::array<One, memory::stream_count> all_{};
  std::array<std::atomic<std::uint32_t>, memory::stream_count> waits_{};
  std::atomic<cudaError_t> failure_{cudaSuccess};  // of an order(), not yet thrown
  std::mutex mutex_;                               // guards creation and ordering of streams
  One* recorder_ = nullptr;                        // stream that begins and ends the recording
  RecordedMarks recorded_marks_;
};
/// Returns the streams of device number `index`, and makes the device the thread's current one.
Streams& streams_of(int index);
/// The same, or the streams that record the thread's work instead.
Streams& streams_for_work(int index);

/// Keeps `needed` alive as long as the recording of this thread's work on device number `index`. Does nothing if
/// nothing is recorded.
inline void keep_for_recording(int index, const std::shared_ptr<const void>& needed) {
  if (ambient.recording.streams && ambient.recording.index == index) ambient.recording.kept->push_back(needed);
}

/// Marks in the work of one device's streams, numbered in order.
class Marks {
 public:
  /// As in Backend, for stream `number`.
  std::uint64_t mark(Streams& streams, int number);
  void wait_for(std::uint64_t mark) noexcept;
  void wait_mark(std::uint64_t mark, Streams& streams, int to) noexcept;

 private:
  void drop_first();

  std::mutex mutex_;
  struct Mark {
    cudaEvent_t event;
    int stream;
  };
  std::deque<Mark> marks_;    // marks not known to be passed, the oldest first
  std::uint64_t passed_ = 0;  // the last mark before those of marks_
  std::vector<cudaEvent_t> spare_;
};

}  // namespace bytetape::cuda
