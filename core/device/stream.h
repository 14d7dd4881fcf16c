#pragma once
#include <cstdint>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {

/// A queue of a GPU's work (torch.cuda.Stream). Work of one stream runs in order, and in parallel with other streams.
/// A stream is a number, the same for all devices and runs. Devices without streams ignore it.
class Stream {
 public:
  /// The number of streams for programs, beside for_copies(). With several ranks, gradients use the last two.
  static constexpr int count = memory::stream_count - 1;

  /// Stream 0 is the default, for work outside any StreamScope.
  /// Throws ValueError unless 0 <= number < count.
  explicit Stream(int number);
  /// The stream for copies that run ahead of the work that needs them.
  static constexpr Stream for_copies() { return Stream(static_cast<memory::StreamId>(count)); }

  constexpr int number() const { return id_; }
  friend bool operator==(Stream, Stream) = default;

 private:
  friend class StreamScope;
  friend Stream current_stream();
  explicit constexpr Stream(memory::StreamId id) : id_(id) {}

  memory::StreamId id_;
};

/// Returns this thread's stream (torch.cuda.current_stream).
inline Stream current_stream() { return Stream(memory::ambient.scope.stream); }

/// Runs the thread's work on `stream` while it lives (torch.cuda.stream):
///
///     const StreamScope scope(Stream(1));
///     Tensor y = matmul(a, b);  // in parallel with other streams
///
/// Streams synchronise automatically. Before a stream reads a tensor it waits for the stream that wrote it, and before
/// it writes one it waits for those that read it. Backward runs on the streams of forward. Memory that a stream frees
/// is reused by that stream. A captured step may use several streams, which its graph runs in parallel.
class StreamScope : memory::ScopeGuard {
 public:
  [[nodiscard]] explicit StreamScope(Stream stream);
};

namespace detail {
/// Makes later work of stream `to` wait for earlier work of stream `from`. Does nothing on a device without streams.
void order(Device device, int from, int to) noexcept;
/// Makes later work of stream `to` wait until the device has passed a mark of Backend's. Does nothing if mark is 0.
void wait_mark(Device device, std::uint64_t mark, int to) noexcept;
}  // namespace detail

}  // namespace bytetape
