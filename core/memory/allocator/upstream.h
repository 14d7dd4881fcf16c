#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "bytetape/core/memory/ledger/outside.h"

namespace bytetape::memory {

/// A source of segments: host memory, a simulation, or a backend's device memory.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// Returns at least `bytes`, aligned to 4096 bytes; null if there is no more memory.
  virtual void* allocate(std::size_t bytes) noexcept = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  /// Throws if the last allocate() failed for a reason other than lack of memory.
  virtual void check_failure() {}
  /// The total bytes of this upstream.
  virtual std::size_t capacity() const = 0;
  /// The memory used beyond the segments, measured now. None if it cannot be measured.
  virtual std::optional<Outside> outside() const { return std::nullopt; }
};

/// Pageable host memory, in huge pages if the system grants them.
class HostUpstream final : public Upstream {
 public:
  void* allocate(std::size_t bytes) noexcept override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  /// The bytes of physical memory, or the process's control group limit if that is less. Read at the first call.
  std::size_t capacity() const override;
  /// The resident bytes of the process outside the segments. Linux only.
  std::optional<Outside> outside() const override;

 private:
  std::map<const void*, std::size_t> segments_;  // a map, as its small nodes never take a large piece in a step
};

/// An upstream of addresses that must not be accessed. It simulates a device's memory without the device.
class SimulatedUpstream : public Upstream {
 public:
  explicit SimulatedUpstream(std::size_t capacity = std::numeric_limits<std::size_t>::max()) : capacity_(capacity) {}
  void* allocate(std::size_t bytes) noexcept override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  std::size_t capacity() const override { return capacity_; }

 private:
  std::size_t capacity_, used_ = 0;
  std::uintptr_t next_ = 4096;
};

}  // namespace bytetape::memory
