#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {

/// Pinned (page-locked) host memory, which a device can copy from or to asynchronously. It has its own allocator and
/// ledger. A released block that the device may still use is kept back until `kept_back` more blocks were released, by
/// when its copy has long finished. So the choice of blocks never depends on the device's speed.
class PinnedMemory {
 public:
  /// Waits until a device has passed a mark from Backend::mark.
  using Wait = void (*)(int index, std::uint64_t mark) noexcept;
  /// The number of blocks that are kept back.
  static constexpr std::size_t kept_back = 4;

  /// Makes the pinned memory of `device`. On a meta device there is nothing to wait for.
  PinnedMemory(Device device, std::unique_ptr<Upstream> upstream, Wait wait = nullptr,
               Allocator::Mode mode = Allocator::Mode::caching, bool is_listed = true);
  ~PinnedMemory() { settle(); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  Allocator& allocator() { return allocator_; }
  bool is_meta() const { return device_.is_meta; }

  /// Allocates a block like Allocator::allocate(). If memory is short, waits for the blocks that are kept back and
  /// tries again.
  Block* allocate(std::size_t bytes, Role role);
  /// Releases a block, which the device uses until it has passed `mark`. 0: the device does not use it.
  void deallocate(Block* block, std::uint64_t mark) noexcept;
  /// Waits for all blocks that are kept back, and deallocates them.
  void settle() noexcept;
  void wait_for(std::uint64_t mark) const noexcept;

 private:
  struct Kept {
    Block* block = nullptr;
    std::uint64_t mark = 0;
  };
  Kept keep(Kept next) noexcept;
  void take_in(const Kept& kept) noexcept;

  Device device_;
  Wait wait_;
  Allocator allocator_;
  std::mutex mutex_;  // guards the members below
  std::array<Kept, kept_back> kept_{};
  std::size_t oldest_ = 0;
};

}  // namespace bytetape::memory
