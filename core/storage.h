#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bytetape/core/ambient.h"
#include "bytetape/core/device/residency.h"
#include "bytetape/core/device/stream_order.h"
#include "bytetape/core/dtype.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape {
class ExternalMemory;

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
/// tensors. StreamOrder knows the streams that use the bytes, and Residency where the bytes are.
class Storage final : public RefCounted {
 public:
  /// Allocates `bytes` on the device.
  /// Throws OutOfMemory.
  Storage(std::size_t bytes, Device device, memory::Role role);
  /// Allocates `bytes` of pinned host memory.
  /// Throws OutOfMemory.
  Storage(std::size_t bytes, memory::PinnedMemory& memory, memory::Role role);
  /// Uses memory that someone else owns (core/device/external.h), which begins at `data`.
  Storage(void* data, std::size_t bytes, Device device, std::unique_ptr<ExternalMemory> external);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return residency_.data(); }
  std::size_t bytes() const { return residency_.bytes(); }
  Device device() const { return residency_.device(); }
  /// The allocator's block; null if the storage is wrapped, empty or evicted.
  const memory::Block* block() const { return residency_.block(); }
  /// The pinned memory that the bytes are in, or null.
  memory::PinnedMemory* pinned() const { return residency_.pinned(); }
  /// Whether the memory is somebody else's, and must not be written here. Ops that write it throw ValueError.
  bool is_read_only() const;
  /// Throws ValueError if the memory is read-only.
  void check_writable() const;
  /// Whether the ledger counts the bytes, on the device or in pinned memory.
  bool is_ours() const { return residency_.is_ours(); }
  const Residency& residency() const { return residency_; }
  /// The streams whose later work must wait for a write that another library has made. A bit for each.
  std::uint32_t streams() const { return order_.streams(); }
  /// Between these calls, another library may write the bytes, unseen by version(). Ops then make an autocast copy for
  /// each use. end_exposure() may be called on any thread.
  void expose();
  void end_exposure() { exposures_.fetch_sub(1, std::memory_order_release); }
  bool is_exposed() const { return exposures_.load(std::memory_order_acquire) > 0; }

  /// \name Eviction
  /// The bytes of a device's storage can move to pinned host memory and back. The ledger keeps their role. Tensors,
  /// versions and saved references do not change. The next op that uses the storage restores it. Only one thread may
  /// use the storage meanwhile.
  /// @{

  /// Begins to copy the bytes to the host, on the stream for copies, so that evict() waits less. A write discards the
  /// copy. Does nothing if there is a copy, or if the storage is empty.
  /// Throws DeviceError if there is no pinned memory for the device.
  /// Throws ValueError if the memory is wrapped.
  /// Throws CaptureError if eviction is disallowed, or in a captured step that did not allocate the memory.
  /// Throws OutOfMemory.
  void copy_out() { residency_.copy_out(order_); }
  /// Returns the memory to the device's allocator, once the copy is done. Throws as copy_out() does.
  void evict() { residency_.evict(order_); }
  bool is_evicted() const { return residency_.is_evicted(); }
  /// Allocates device memory, and copies the bytes back on the thread's stream. Does nothing if they are on the device.
  /// Throws OutOfMemory, or CaptureError if a captured step evicted it. The bytes then stay on the host.
  void restore() { residency_.restore(order_); }
  /// Discards an unneeded copy.
  void drop_copy() { residency_.drop_copy(); }
  /// Disallows eviction from now on, because recorded work or another library has the address.
  void disallow_eviction() { residency_.disallow_eviction(); }
  bool stays() const { return residency_.stays(); }
  /// @}

  /// \name Bytes from a source
  /// The bytes of a storage that has a source can be dropped. The next op that uses the storage, or refill(), allocates
  /// memory and gets them from the source. Tensors, versions and saved references do not change. `saved for backward`
  /// is not counted for such a storage. Only one thread may use the storage meanwhile.
  /// @{

  /// Sets the source from which dropped bytes are restored. Call it before an op saves the storage.
  /// Throws ValueError if the memory is wrapped, or if eviction is disallowed.
  void set_source(Ref<ByteSource> source) { residency_.set_source(std::move(source)); }
  /// Returns the memory to the allocator, and discards the autocast copy. Call it while no running op has the address.
  /// Throws ValueError if there is no source.
  void drop();
  bool is_dropped() const { return residency_.is_dropped(); }
  /// Allocates memory, and gets the bytes from the source. Does nothing if they are not dropped.
  /// Throws OutOfMemory, and whatever the source throws. The bytes then stay dropped.
  void refill();
  /// @}

  /// Call before the thread's stream, or the host, reads. Restores evicted bytes, notifies the step's watch, and makes
  /// the stream wait for the last writer.
  void before_read() {
    if (!order_.may_read() | (detail::core_ambient.step_watch != nullptr)) [[unlikely]]
      order_read();
  }
  /// Call before the thread's stream, or the host, writes. Restores evicted bytes, discards their copy, notifies the
  /// step's watch, and makes the stream wait for all users.
  /// Throws ValueError if the memory is read-only.
  void before_write() {
    if (!order_.may_write() | (detail::core_ambient.step_watch != nullptr)) [[unlikely]]
      order_write();
  }
  /// For pinned memory: the device may read it until it has passed `mark` (Backend::mark).
  void set_read_until(std::uint64_t mark) { order_.set_read_until(mark); }
  /// Makes the host wait for those reads.
  void wait_for_device_reads() { order_.wait_for_device_reads(pinned()); }

  void set_role(memory::Role role);
  void set_role(memory::Role role, memory::NameId module);
  memory::Role role() const;
  /// The module to which the ledger attributes the bytes.
  memory::NameId module() const { return owner().module; }
  /// The module, and the op that allocated the bytes.
  memory::ScopeIds owner() const { return residency_.owner(); }
  /// Counts a Saved that holds the storage. While there is one, a temporary has the role "saved for backward". `saver`
  /// identifies the holder for why_alive(). The caller of drop_saved() must still own a reference. If that is the last
  /// reference, the role stays.
  void hold_saved(const void* saver = nullptr);
  void drop_saved(const void* saver = nullptr);
  /// Whether a Saved holds the storage.
  bool is_saved() const;

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
  void order_read();
  void order_write();
  void restore_for_use();

  Residency residency_;
  StreamOrder order_;
  Ref<detail::SavedWatch> watch_;  // while a node saves this storage
  std::uint32_t version_ = 0, rebased_ = 0;
  memory::NameId writer_ = 0;
  Shadow shadow_;
  std::unique_ptr<ExternalMemory> external_;  // null if the memory is ours
  std::atomic<int> exposures_{0};
};

}  // namespace bytetape
