#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "bytetape/core/device.h"
#include "bytetape/core/dtype.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/memory/scope.h"

namespace bytetape {
namespace memory {
class Allocator;
struct Block;
}  // namespace memory

class Storage;
namespace detail {
class StepWatch;
/// Sees what the thread works with, where it takes a step that is to be captured (core/capture.h); else null.
inline constinit thread_local StepWatch* step_watch = nullptr;
void note_use(StepWatch& watch, Storage& s);
void note_write(StepWatch& watch, Storage& s);
}  // namespace detail

/// The bytes that tensors share, and who holds them. Counts writes, so that a stale saved tensor is found out.
class Storage final : public RefCounted {
 public:
  /// Takes `bytes` from the device's allocator. Throws OutOfMemory.
  Storage(std::size_t bytes, Device device, memory::Role role);
  /// Wraps memory that somebody else owns; `release` (may be empty) runs at the end. Not on the ledger.
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// Null for wrapped and for empty storage.
  const memory::Block* block() const { return block_; }

  void set_role(memory::Role role);
  void set_role(memory::Role role, memory::NameId module);
  memory::Role role() const;
  /// The module that the bytes are booked under.
  memory::NameId module() const;
  /// While any Saved holds the storage, a temporary counts as saved for backward. Whoever drops it still owns a
  /// reference; where that is the last one the role does not change any more.
  void hold_saved();
  void drop_saved();

  /// Writes so far.
  std::uint32_t version() const { return version_; }
  /// The op of the last write.
  memory::NameId writer() const { return writer_; }
  /// Counts a write of the op that is running.
  void bump_version() {
    ++version_;
    writer_ = memory::current_scope.op;
    if (detail::step_watch) [[unlikely]]
      detail::note_write(*detail::step_watch, *this);
  }
  /// The same elements in a lower dtype, for ops that read them so; ends with what it is a copy of. Kept by
  /// core/shadow.h alone.
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
  memory::Allocator* allocator_ = nullptr;
  memory::Block* block_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  std::uint32_t version_ = 0, rebased_ = 0;
  memory::NameId writer_ = 0;
  Shadow shadow_;
  std::function<void()> release_;
};

}  // namespace bytetape
