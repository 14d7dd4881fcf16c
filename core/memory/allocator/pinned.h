#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {

/// Memory of the host that cannot be swapped out (page-locked), so that a device copies from it while the host goes on:
/// an allocator with books of its own, and the blocks that nobody holds any more but the device may still be reading.
/// Those stay allocated until as many more have followed them, by when their copies have long ended: so which block is
/// taken never depends on how fast the device is.
class PinnedMemory {
 public:
  /// Waits until a device has come past a mark that it was given (Backend::mark).
  using Wait = void (*)(int index, std::uint64_t mark) noexcept;
  /// How many blocks are kept back.
  static constexpr std::size_t kept_back = 4;

  /// Of `device`, or of the device that it stands for, where there is nothing to wait for.
  PinnedMemory(Device device, std::unique_ptr<Upstream> upstream, Wait wait = nullptr,
               Allocator::Mode mode = Allocator::Mode::caching, bool is_listed = true);
  ~PinnedMemory() { settle(); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  Allocator& allocator() { return allocator_; }
  bool is_meta() const { return device_.is_meta; }

  /// As Allocator says; waits for the blocks that are kept back rather than have too little.
  Block* allocate(std::size_t bytes, Role role);
  /// The device reads the block until it has come past `mark`; 0 where it does not.
  void deallocate(Block* block, std::uint64_t mark) noexcept;
  /// Takes in all that is kept back, waiting for it.
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
  std::mutex mutex_;  // of what follows
  std::array<Kept, kept_back> kept_{};
  std::size_t oldest_ = 0;
};

}  // namespace bytetape::memory
