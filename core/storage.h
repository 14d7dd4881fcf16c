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
/// Observes which storages nodes save for backward (autograd/save_on_cpu.h). Called from several threads.
class SavedWatch : public RefCounted {
 public:
  virtual ~SavedWatch() = default;
  /// Whether it wants to observe a storage that was just saved.
  virtual bool wants(const Storage& s) const = 0;
  /// One more node saves s. During forward, no running op holds the address of a saved storage.
  virtual void held(Storage& s) = 0;
  /// The bytes of s were restored, because an op needs them.
  virtual void restored(Storage& s) = 0;
  /// No node saves s any more. s may be about to be deleted, so all work on it must be done before this returns.
  virtual void dropped(Storage& s) noexcept = 0;
};

/// Notifies a watch (core/device/capture.h) of a use of s, or of a write to s.
void note_use(StepWatch& watch, Storage& s);
void note_write(StepWatch& watch, Storage& s);
}  // namespace detail

/// The bytes that tensors share. It counts its owners, and its writes, so that backward detects overwritten saved
/// tensors. It also knows the streams that use it, so that each waits for the others as needed.
class Storage final : public RefCounted {
 public:
  /// Allocates `bytes` on the device.
  /// Throws OutOfMemory.
  Storage(std::size_t bytes, Device device, memory::Role role);
  /// Allocates `bytes` of pinned host memory.
  /// Throws OutOfMemory.
  Storage(std::size_t bytes, memory::PinnedMemory& memory, memory::Role role);
  /// Wraps memory that someone else owns. `release` (may be empty) runs at the end. The ledger does not count it.
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// The allocator's block; null if the storage is wrapped, empty or evicted.
  const memory::Block* block() const { return block_; }
  /// The pinned memory that the bytes are in, or null.
  memory::PinnedMemory* pinned() const { return pinned_; }
  /// Whether the ledger counts the bytes, on the device or in pinned memory.
  bool is_ours() const { return block_ || elsewhere_; }

  /// \name Eviction
  /// The bytes of a device's storage can move to pinned host memory and back. The ledger keeps their role. Tensors,
  /// versions and saved references do not change. The next op that uses the storage restores it. Only one thread may
  /// use the storage meanwhile.
  /// @{

  /// Begins to copy the bytes to the host, on the stream for copies, so that evict() waits less. A write discards the
  /// copy. Does nothing if there is a copy, or if the storage is empty.
  /// Throws DeviceError if there is no pinned memory for the device.
  /// Throws ValueError if the memory is wrapped.
  /// Throws CaptureError if a step is being captured, or if a captured step uses the storage.
  /// Throws OutOfMemory.
  void copy_out();
  /// Returns the memory to the device's allocator, once the copy is done. Throws as copy_out() does.
  void evict();
  bool is_evicted() const { return elsewhere_ && !block_; }
  /// Allocates device memory, and copies the bytes back on the thread's stream. Does nothing if they are on the device.
  /// Throws OutOfMemory, and leaves the bytes on the host.
  void restore();
  /// Discards an unneeded copy.
  void drop_copy() {
    if (block_) elsewhere_ = {};
  }
  /// Disallows eviction from now on, because recorded work has the address.
  void disallow_eviction() {
    stays_ = true;
    drop_copy();
  }
  bool stays() const { return stays_; }
  /// @}

  /// Call before the thread's stream, or the host, reads: it waits for the last writer.
  void before_read() {
    const bool known = used_on_.load(std::memory_order_relaxed) >> memory::ambient.scope.stream & 1;
    if (!known | (detail::core_ambient.step_watch != nullptr)) [[unlikely]]
      order_read();
  }
  /// Call before the thread's stream, or the host, writes: it waits for all users.
  void before_write() {
    const bool alone = used_on_.load(std::memory_order_relaxed) == bit(memory::ambient.scope.stream);
    if (!alone | (detail::core_ambient.step_watch != nullptr)) [[unlikely]]
      order_write();
  }
  /// For pinned memory: the device may read it until it has passed `mark` (Backend::mark).
  void set_read_until(std::uint64_t mark);
  /// Makes the host wait for those reads.
  void wait_for_device_reads() {
    if (used_on_.load(std::memory_order_relaxed) & device_reads) [[unlikely]]
      end_device_reads();
  }

  void set_role(memory::Role role);
  void set_role(memory::Role role, memory::NameId module);
  memory::Role role() const;
  /// The module to which the ledger attributes the bytes.
  memory::NameId module() const { return owner().module; }
  /// The module, and the op that allocated the bytes.
  memory::ScopeIds owner() const;
  /// Counts a Saved that holds the storage. While there is one, a temporary has the role "saved for backward". `saver`
  /// identifies the holder for why_alive(). The caller of drop_saved() must still own a reference. If that is the last
  /// reference, the role stays.
  void hold_saved(const void* saver = nullptr);
  void drop_saved(const void* saver = nullptr);

  /// The number of writes so far.
  std::uint32_t version() const { return version_; }
  /// The op of the last write.
  memory::NameId writer() const { return writer_; }
  /// Counts a write by the running op.
  void bump_version() {
    ++version_;
    writer_ = memory::ambient.scope.op;
    if (detail::core_ambient.step_watch) [[unlikely]]
      detail::note_write(*detail::core_ambient.step_watch, *this);
  }
  /// A copy of the elements in a lower dtype, for ops that read it instead. Deleted with this storage. Managed by
  /// core/device/shadow.h.
  struct Shadow {
    Ref<Storage> storage;
    DType dtype = DType::bf16;
    std::uint32_t version = 0;  ///< of the original when it was copied
  };
  Shadow& shadow() { return shadow_; }
  /// The number of in-place ops on the tape that wrote here. A view made before one of them must not be used after it.
  std::uint32_t rebased() const { return rebased_; }
  void bump_rebased() { ++rebased_; }

 private:
  static constexpr std::uint32_t bit(int stream) { return std::uint32_t{1} << stream; }
  /// In used_on_: a copy from pinned memory to the device may still run.
  static constexpr std::uint32_t device_reads = std::uint32_t{1} << 31;
  /// In used_on_: copy_out() reads it until copied_at_. The next write discards the copy.
  static constexpr std::uint32_t copied = std::uint32_t{1} << 30;
  /// In used_on_: the stream for copies wrote last. No other stream then counts as the only user before it writes.
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
  memory::StreamId home_ = memory::ambient.scope.stream;  // stream that owns the block
  memory::StreamId written_on_ = home_;                   // stream of the last write
  std::atomic<std::uint32_t> used_on_{bit(home_)};        // one bit per stream, since the last write
  std::atomic<std::uint64_t> copied_at_{0};               // mark after its last copy to the host, until the next write
  std::atomic<std::uint64_t> read_until_{0};              // valid while device_reads is set
  memory::PinnedMemory* pinned_ = nullptr;
  Ref<Storage> elsewhere_;         // copy in pinned memory; the only copy if the block is null
  Ref<detail::SavedWatch> watch_;  // while a node saves this storage
  bool stays_ = false;
  std::uint32_t version_ = 0, rebased_ = 0;
  memory::NameId writer_ = 0;
  Shadow shadow_;
  std::function<void()> release_;
};

}  // namespace bytetape
