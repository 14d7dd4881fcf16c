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

/// The memory of a storage: a block of its device, a copy in pinned host memory, or both. Bytes of a device can move to
/// the host and back (Storage::evict). `order` is the storage's, whose streams use the block.
class Residency {
 public:
  /// A block and the allocator that has its books; both null if there is none.
  struct Booked {
    memory::Allocator* allocator = nullptr;
    memory::Block* block = nullptr;
    explicit operator bool() const { return block != nullptr; }
  };

  /// Memory at `data`, which someone else owns, or none yet. `pinned`: the pinned memory of what hold() gets, or null.
  Residency(void* data, std::size_t bytes, Device device, memory::PinnedMemory* pinned = nullptr)
      : data_(data), bytes_(bytes), pinned_(pinned), device_(device) {}
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;
  /// Puts the bytes into a block, which begins at `data`.
  void hold(Booked block, void* data) {
    allocator_ = block.allocator;
    block_ = block.block;
    data_ = data;
  }
  /// The block that the bytes are in, for the storage to free at its end.
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

  // As Storage documents them.
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
