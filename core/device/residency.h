#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "bytetape/core/device/device.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape {
namespace memory {
class Allocator;
class PinnedMemory;
struct Block;
}  // namespace memory

class Storage;
class StreamOrder;

/// Computes the bytes of a storage that were dropped, such as by gathering them from other processes.
class ByteSource : public RefCounted {
 public:
  virtual ~ByteSource() = default;
  /// Writes the bytes into the new memory of `s`. Called on the thread and stream that need them.
  virtual void refill(Storage& s) = 0;
};

/// The memory of a storage: a block of its device, a copy in pinned host memory, or both. The bytes can move from the
/// device to the host and back (Storage::evict), or be dropped and come back from a source (Storage::drop). `order`
/// arguments are the storage's StreamOrder.
class Residency {
 public:
  /// A block and its allocator. Both are null if the storage has no block.
  struct Booked {
    memory::Allocator* allocator = nullptr;
    memory::Block* block = nullptr;
    explicit operator bool() const { return block != nullptr; }
  };

  /// Starts with memory at `data` that someone else owns, or with none if `data` is null. `pinned` is the pinned memory
  /// from which the block for hold() comes, or null.
  Residency(void* data, std::size_t bytes, Device device, memory::PinnedMemory* pinned = nullptr);
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;
  /// Takes over an allocated block, which begins at `data`. Copies nothing.
  void hold(Booked block, void* data) {
    allocator_ = block.allocator;
    block_ = block.block;
    data_ = data;
  }
  /// The block that holds the bytes. ~Storage frees it.
  Booked held() const { return {allocator_, block_}; }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  const memory::Block* block() const { return block_; }
  memory::PinnedMemory* pinned() const { return pinned_; }
  bool is_ours() const { return block_ || copy_; }
  bool is_evicted() const { return copy_ && !block_; }
  bool has_source() const { return static_cast<bool>(source_); }
  bool is_dropped() const { return source_ && !block_ && bytes_ > 0; }
  /// The block that the ledger attributes to the storage: on the device, else on the host.
  Booked booked() const;
  memory::ScopeIds owner() const;

  // See Storage::set_source, drop and refill.
  void set_source(Ref<ByteSource> source);
  void drop(StreamOrder& order);
  void refill(Storage& s, StreamOrder& order);

  // See Storage::copy_out, evict and restore.
  void copy_out(StreamOrder& order);
  void evict(StreamOrder& order);
  void restore(StreamOrder& order);
  /// Discards the copy on the host, unless it is the only one.
  void drop_copy();
  void disallow_eviction() {
    stays_ = true;
    drop_copy();
  }
  bool stays() const { return stays_; }

 private:
  memory::ScopeIds scope_of(const char* op) const;
  memory::Block* allocate_at_home(const StreamOrder& order, memory::Role role) const;

  memory::Allocator* allocator_ = nullptr;
  memory::Block* block_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  memory::PinnedMemory* pinned_ = nullptr;
  Ref<Storage> copy_;  // in pinned memory; the only copy if the block is null
  Ref<ByteSource> source_;
  memory::Role dropped_role_ = memory::Role::temporary;
  memory::ScopeIds dropped_owner_;
  Device device_;
  bool stays_ = false;
};

}  // namespace bytetape
