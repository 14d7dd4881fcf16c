#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape::memory {

/// The books of a meta device over a simulated system, from nothing held; recordings see them where they are listed.
std::unique_ptr<Allocator> make_meta_allocator(Device meta, Allocator::Mode mode, bool is_listed = true);
/// The same of the host's memory that is pinned for a device.
std::unique_ptr<PinnedMemory> make_meta_pinned(Device meta, Allocator::Mode mode, bool is_listed = true);

/// Memory of meta devices beside the process's own: made as it is asked for, in the mode that the process's has. What
/// is still allocated there when this ends stays good, on its books.
class MetaAllocators {
 public:
  MetaAllocators() = default;
  ~MetaAllocators();
  MetaAllocators(const MetaAllocators&) = delete;
  MetaAllocators& operator=(const MetaAllocators&) = delete;

  /// Throws DeviceError where a backend knows no such device.
  Allocator& allocator(Device meta);
  /// Null where the device has none.
  PinnedMemory* pinned(Device meta);
  /// From now on, f gets each allocator that is made, before it serves anything.
  void on_made(std::function<void(Allocator&)> f) { made_ = std::move(f); }
  /// All that there are so far, in the order of their making.
  std::vector<Allocator*> all() const;

 private:
  struct Twin {
    Device device;
    std::unique_ptr<Allocator> memory;     // one ...
    std::unique_ptr<PinnedMemory> pinned;  // ... or the other
    Allocator& books() const { return pinned ? pinned->allocator() : *memory; }
  };
  Allocator& add(Twin twin);

  std::function<void(Allocator&)> made_ = [](Allocator&) {};
  std::vector<Twin> all_;
};

}  // namespace bytetape::memory
