#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "bytetape/core/ambient.h"
#include "bytetape/core/device/device.h"
#include "bytetape/core/dtype.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape {
namespace memory {
class Allocator;
class PinnedMemory;
struct Block;
}  // namespace memory

class Storage;
namespace detail {
/// Sees which storages nodes keep for backward (autograd/save_on_cpu.h). May be told from several threads.
class SavedWatch : public RefCounted {
 public:
  virtual ~SavedWatch() = default;
  /// Whether it is to hear of a storage that has just become kept.
  virtual bool wants(const Storage& s) const = 0;
  /// One node more keeps it. In forward, no op that has begun has an address of any that is kept.
  virtual void held(Storage& s) = 0;
  /// It got its bytes back, as somebody needs them.
  virtual void restored(Storage& s) = 0;
  /// No node keeps it any more; it may be about to end. What follows does so before this returns.
  virtual void dropped(Storage& s) noexcept = 0;
};

/// Tell a watch (core/device/capture.h) of a use of s, and of a write.
void note_use(StepWatch& watch, Storage& s);
void note_write(StepWatch& watch, Storage& s);
}  // namespace detail

/// The bytes that tensors share, and who holds them. Counts writes, so that a stale saved tensor is found out; and
/// knows the streams that work with it, so that each waits for what it must.
class Storage final : public RefCounted {
 public:
  /// Takes `bytes` from the device's allocator. Throws OutOfMemory.
  Storage(std::size_t bytes, Device device, memory::Role role);
  /// The same, of the host's memory that is pinned for a device.
  Storage(std::size_t bytes, memory::PinnedMemory& memory, memory::Role role);
  /// Wraps memory that somebody else owns; `release` (may be empty) runs at the end. Not on the ledger.
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// Null for wrapped, for empty and for evicted storage.
  const memory::Block* block() const { return block_; }
  /// What it lies in, where that is pinned memory of the host; else null.
  memory::PinnedMemory* pinned() const { return pinned_; }
  /// Whether the bytes are on the ledger, here or elsewhere.
  bool is_ours() const { return block_ || elsewhere_; }

  /// \name Elsewhere
  /// The bytes of a device's storage may go to memory of the host that is pinned for it, where they are booked in the
  /// same role, and come back. Tensors, versions and who keeps the storage for backward stay as they are; the next op
  /// that uses it has it back without being told. Meanwhile one thread alone may use the storage.
  /// @{

  /// Begins to copy the bytes, on the stream for copies; evict() then has less to wait for. A write makes the copy
  /// void. Does nothing where there is one already, and on an empty storage. Throws DeviceError where no memory is
  /// pinned for the device, ValueError on memory that somebody else owns, CaptureError in a step that is being captured
  /// and where one that was captured works with it, OutOfMemory.
  void copy_out();
  /// Gives the memory back to the device's allocator, behind the copy. Throws as copy_out() does.
  void evict();
  bool is_evicted() const { return elsewhere_ && !block_; }
  /// Takes memory and has the bytes copied there by the thread's stream. Does nothing where they are there. Throws
  /// OutOfMemory, and leaves them where they are.
  void restore();
  /// Forgets a copy that is not needed.
  void drop_copy() {
    if (block_) elsewhere_ = {};
  }
  /// From now on it cannot be evicted: work that is recorded has its address.
  void disallow_eviction() {
    stays_ = true;
    drop_copy();
  }
  bool stays() const { return stays_; }
  /// @}

  /// Before the thread's stream, or the host, reads: that waits there for who has written.
  void before_read() {
    const bool known = used_on_.load(std::memory_order_relaxed) >> memory::ambient.scope.stream & 1;
    if (!known | (detail::core_ambient.step_watch != nullptr)) [[unlikely]]
      order_read();
  }
  /// Before it writes: that waits for all who have used it.
  void before_write() {
    const bool alone = used_on_.load(std::memory_order_relaxed) == bit(memory::ambient.scope.stream);
    if (!alone | (detail::core_ambient.step_watch != nullptr)) [[unlikely]]
      order_write();
  }
  /// Of pinned memory: the device reads it until it has come past `mark` (Backend::mark).
  void set_read_until(std::uint64_t mark);
  /// The host waits for that.
  void wait_for_device_reads() {
    if (used_on_.load(std::memory_order_relaxed) & device_reads) [[unlikely]]
      end_device_reads();
  }

  void set_role(memory::Role role);
  void set_role(memory::Role role, memory::NameId module);
  memory::Role role() const;
  /// The module that the bytes are booked under.
  memory::NameId module() const { return owner().module; }
  /// That, and the op that allocated them.
  memory::ScopeIds owner() const;
  /// While any Saved holds the storage, a temporary counts as saved for backward. Whoever drops it still owns a
  /// reference; where that is the last one the role does not change any more. `saver` is who holds it, for why_alive().
  void hold_saved(const void* saver = nullptr);
  void drop_saved(const void* saver = nullptr);

  /// Writes so far.
  std::uint32_t version() const { return version_; }
  /// The op of the last write.
  memory::NameId writer() const { return writer_; }
  /// Counts a write of the op that is running.
  void bump_version() {
    ++version_;
    writer_ = memory::ambient.scope.op;
    if (detail::core_ambient.step_watch) [[unlikely]]
      detail::note_write(*detail::core_ambient.step_watch, *this);
  }
  /// The same elements in a lower dtype, for ops that read them so; ends with what it is a copy of. Kept by
  /// core/device/shadow.h alone.
  struct Shadow {
    Ref<Storage> storage;
    DType dtype = DType::bf16;
    std::uint32_t version = 0;  ///< of what it is a copy of
  };
  Shadow& shadow() { return shadow_; }
  /// In-place ops that autograd recorded here; a view taken before one must not be used after it.
  std::uint32_t rebased() const { return rebased_; }
  void bump_rebased() { ++rebased_; }

 private:
  static constexpr std::uint32_t bit(int stream) { return std::uint32_t{1} << stream; }
  /// Of used_on_: a copy from pinned memory, which may not have ended.
  static constexpr std::uint32_t device_reads = std::uint32_t{1} << 31;
  /// Of used_on_: copy_out() has read, until past copied_at_; the next write makes the copy void.
  static constexpr std::uint32_t copied = std::uint32_t{1} << 30;
  /// Of used_on_: the stream for copies wrote last, so that no stream is alone with it before it writes.
  static constexpr std::uint32_t came_back = std::uint32_t{1} << 29;
  void order_read();
  void order_write();
  void restore_async();
  void release() noexcept;
  memory::ScopeIds scope_of(const char* op) const;
  std::uint32_t savers() const;
  void drop_saved(const void* saver, bool about_to_free);
  void end_device_reads();
  void order_others(memory::StreamId behind) noexcept;

  memory::Allocator* allocator_ = nullptr;
  memory::Block* block_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  memory::StreamId home_ = memory::ambient.scope.stream;  // whose memory the block is
  memory::StreamId written_on_ = home_;                   // last
  std::atomic<std::uint32_t> used_on_{bit(home_)};        // a bit for each stream, since the last write
  std::atomic<std::uint64_t> copied_at_{0};   // a mark behind its copies on the stream for them, until the next write
  std::atomic<std::uint64_t> read_until_{0};  // while device_reads is set
  memory::PinnedMemory* pinned_ = nullptr;
  Ref<Storage> elsewhere_;         // a copy in pinned memory; all there is where the block is null
  Ref<detail::SavedWatch> watch_;  // of what nodes keep, while one does
  bool stays_ = false;
  std::uint32_t version_ = 0, rebased_ = 0;
  memory::NameId writer_ = 0;
  Shadow shadow_;
  std::function<void()> release_;
};

}  // namespace bytetape
