#pragma once
#include <cstdint>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {

/// A queue of a GPU's work (torch.cuda.Stream): what one stream is given runs in order, and beside what others are
/// given. It is a number, the same for every device and in every run; where there is no GPU it says nothing.
class Stream {
 public:
  /// How many there are for programs; DataLoader has one more.
  static constexpr int count = memory::stream_count - 1;

  /// Number 0 is the device's own, where work goes that is in no StreamScope. Throws ValueError unless
  /// 0 <= number < count.
  explicit Stream(int number);
  /// Where copies go that run ahead of the work that waits for them.
  static constexpr Stream for_copies() { return Stream(static_cast<memory::StreamId>(count)); }

  constexpr int number() const { return id_; }
  friend bool operator==(Stream, Stream) = default;

 private:
  friend class StreamScope;
  friend Stream current_stream();
  explicit constexpr Stream(memory::StreamId id) : id_(id) {}

  memory::StreamId id_;
};

/// Where this thread's work goes (torch.cuda.current_stream).
inline Stream current_stream() { return Stream(memory::ambient.scope.stream); }

/// The thread's work goes to `stream` while this lives (torch.cuda.stream):
///
///     const StreamScope scope(Stream(1));
///     Tensor y = matmul(a, b);  // beside what the device does otherwise
///
/// Nothing needs to be waited for by hand: a tensor that one stream has written is waited for by the next stream that
/// uses it, as is one that others read by the stream that writes it; and backward runs where forward ran. Memory that a
/// stream frees is that stream's again. A step that is recorded may use several: its graph runs side by side what they
/// were given.
class StreamScope : memory::ScopeGuard {
 public:
  [[nodiscard]] explicit StreamScope(Stream stream);
};

namespace detail {
/// What stream `to` is given from now on waits for what `from` was given so far. Nothing where a device has no streams.
void order(Device device, int from, int to) noexcept;
/// The same, until the device has come past a mark of Backend's, if not 0.
void wait_mark(Device device, std::uint64_t mark, int to) noexcept;
}  // namespace detail

}  // namespace bytetape
