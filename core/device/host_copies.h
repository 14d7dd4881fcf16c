#pragma once
#include <cstddef>
#include <memory>

#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/storage.h"

namespace bytetape::detail {

/// The pinned host memory to which a captured step offloads, and the bytes that each replay copies there and back. The
/// step owns the memory, as recorded copies have its addresses.
class HostCopies {
 public:
  /// Allocates `bytes` of `pinned` for one copy. All calls have the same `pinned`.
  /// Throws OutOfMemory.
  Ref<Storage> allocate(std::size_t bytes, memory::PinnedMemory& pinned, memory::Role role);
  bool owns(const memory::Block* block) const { return pool_ && pool_->owns(block); }
  /// Notes a recorded copy of a device's memory.
  void note(memory::Allocator& device, memory::EventKind kind, std::size_t bytes);
  /// Call after the recording. Keeps freed memory for replays.
  void hold_unused();
  /// Logs the copies of a replay as traffic of the device: one event each way.
  void note_replay() const;

 private:
  std::unique_ptr<memory::Pool> pool_;
  memory::Allocator* device_ = nullptr;  // null if nothing is copied
  std::size_t to_host_ = 0, to_device_ = 0;
};

}  // namespace bytetape::detail
