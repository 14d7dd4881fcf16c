#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape::memory {

/// Makes an empty allocator of a meta device over a simulated system. Recordings see it if `is_listed`.
std::unique_ptr<Allocator> make_meta_allocator(Device meta, Allocator::Mode mode, bool is_listed = true);
/// The same for host memory that is pinned for a device.
std::unique_ptr<PinnedMemory> make_meta_pinned(Device meta, Allocator::Mode mode, bool is_listed = true);

/// Allocators of meta devices that replace the process's. Each is made on first use, in the mode of the process's
/// allocator. Blocks that are still allocated when this object is destroyed stay valid.
class MetaAllocators {
 public:
  MetaAllocators() = default;
  ~MetaAllocators();
  MetaAllocators(const MetaAllocators&) = delete;
  MetaAllocators& operator=(const MetaAllocators&) = delete;

  /// Returns the allocator of a meta device.
  /// Throws DeviceError if no backend knows the device.
  Allocator& allocator(Device meta);
  /// Returns the pinned memory of a meta device; null if it has none.
  PinnedMemory* pinned(Device meta);
  /// Sets a function that is called with each new allocator before it serves a request.
  void on_made(std::function<void(Allocator&)> f) { made_ = std::move(f); }
  /// The number of this object among all that the process made, from 1.
  std::uint64_t number() const { return number_; }
  /// All allocators made so far, in the order of creation.
  std::vector<Allocator*> all() const;

 private:
  struct Twin {
    Device device;
    std::unique_ptr<Allocator> memory;     // one ...
    std::unique_ptr<PinnedMemory> pinned;  // ... or the other
    Allocator& books() const { return pinned ? pinned->allocator() : *memory; }
  };
  Allocator& add(Twin twin);
  static std::uint64_t next_number();

  const std::uint64_t number_ = next_number();

  std::function<void(Allocator&)> made_ = [](Allocator&) {};
  std::vector<Twin> all_;
};

}  // namespace bytetape::memory
