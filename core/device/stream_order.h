#pragma once
#include <atomic>
#include <cstdint>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape {
namespace memory {
class PinnedMemory;
}  // namespace memory

/// Orders the streams that use one piece of memory. A reader waits for the last writer. A writer waits for all users
/// since the last write. No other waits happen. New memory belongs to the thread's stream, its home stream, which
/// counts as its first user.
class StreamOrder {
 public:
  memory::StreamId home() const { return home_; }
  /// The streams that may have used the memory since the last write, and the home stream. A bit for each.
  std::uint32_t streams() const { return (users() | bit(home_)) & (bit(memory::stream_count) - 1); }
  /// Whether the thread's stream may read without a wait.
  bool may_read() const { return users() >> memory::ambient.scope.stream & 1; }
  /// Whether the thread's stream may write without a wait.
  bool may_write() const { return users() == bit(memory::ambient.scope.stream); }
  /// Makes the thread's stream wait for the last writer, and counts it as a user.
  void order_read(Device device);
  /// Makes the thread's stream wait for all users. The thread's stream is then the only user.
  void order_write(Device device);
  /// Makes the home stream wait for all users. Call before the memory is freed.
  void order_free(Device device) noexcept {
    if (users() != bit(home_)) [[unlikely]]
      wait_for_others(device, home_);
  }

  /// Makes may_write() false from now on.
  void disallow_writes() { used_on_.fetch_or(read_only, std::memory_order_relaxed); }

  /// \name Copies to the host and back (core/device/residency.h)
  /// @{

  /// The stream for copies reads the memory until the device has passed `mark`. Other streams may still read the
  /// memory.
  void note_copied_out(std::uint64_t mark);
  /// Call after the memory was freed. Clears the users.
  void forget_users();
  /// Call after new memory was allocated on the home stream, in place of freed memory.
  void note_new_memory();
  /// The thread's stream copies the bytes back into new memory. The copy is done once the device has passed `mark`.
  void note_copied_back(std::uint64_t mark);
  /// @}

  /// \name Copies from pinned host memory
  /// @{

  /// The device may read the memory until the device has passed `mark` (Backend::mark).
  void set_read_until(std::uint64_t mark);
  std::uint64_t read_until() const { return read_until_.load(std::memory_order_relaxed); }
  /// Makes the host wait for the device's reads.
  void wait_for_device_reads(memory::PinnedMemory* memory) {
    if (users() & device_reads) [[unlikely]]
      end_device_reads(*memory);
  }
  /// @}

 private:
  static constexpr std::uint32_t bit(int stream) { return std::uint32_t{1} << stream; }
  /// In used_on_: a copy from pinned memory to the device may still run.
  static constexpr std::uint32_t device_reads = std::uint32_t{1} << 31;
  /// In used_on_: the stream for copies reads the memory until copied_at_.
  static constexpr std::uint32_t copied = std::uint32_t{1} << 30;
  /// In used_on_: the stream for copies wrote last. While it is set, may_write() is false, so each writer waits first.
  static constexpr std::uint32_t came_back = std::uint32_t{1} << 29;

  /// In used_on_: the memory must not be written.
  static constexpr std::uint32_t read_only = std::uint32_t{1} << 28;

  std::uint32_t users() const { return used_on_.load(std::memory_order_relaxed); }
  void wait_for_others(Device device, memory::StreamId stream) noexcept;
  void end_device_reads(memory::PinnedMemory& memory);

  memory::StreamId home_ = memory::ambient.scope.stream;  // stream that owns the memory
  memory::StreamId written_on_ = home_;                   // stream of the last write
  std::atomic<std::uint32_t> used_on_{bit(home_)};        // one bit per stream, since the last write
  std::atomic<std::uint64_t> copied_at_{0};               // mark after its last copy, until the next write
  std::atomic<std::uint64_t> read_until_{0};              // valid while device_reads is set
};

}  // namespace bytetape
