#pragma once
#include <cstddef>
#include <cstdint>

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

/// The memory of a storage: a block of its device, a copy in pinned host memory, or both. The bytes can move from the
/// device to the host and back (Storage::evict). `order` arguments are the storage's StreamOrder.
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
  /// The block that the ledger attributes to the storage: on the device, else on the host.
  Booked booked() const;
  memory::ScopeIds owner() const;

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

  memory::Allocator* allocator_ = nullptr;
  memory::Block* block_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  memory::PinnedMemory* pinned_ = nullptr;
  Ref<Storage> copy_;  // in pinned memory; the only copy if the block is null
  Device device_;
  bool stays_ = false;
};

}  // namespace bytetape
