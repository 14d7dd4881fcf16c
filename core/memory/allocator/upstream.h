#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "bytetape/core/memory/ledger/outside.h"

namespace bytetape::memory {

/// Where segments come from. Implementations: host memory, a simulation; a backend brings its own.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// At least `bytes`, aligned to 4096; nullptr where there is no more.
  virtual void* allocate(std::size_t bytes) noexcept = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  /// Throws where the last allocate() failed for another reason than that there is no more.
  virtual void check_failure() {}
  /// Bytes that this upstream can give in all.
  virtual std::size_t capacity() const = 0;
  /// What is used of this memory beyond the segments, as measured now; nothing where that cannot be.
  virtual std::optional<Outside> outside() const { return std::nullopt; }
};

/// Pageable host memory, backed by huge pages where the system grants them.
class HostUpstream final : public Upstream {
 public:
  void* allocate(std::size_t bytes) noexcept override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  /// Physical memory, or what the process's control group allows of it, as first asked for.
  std::size_t capacity() const override;
  /// Resident bytes of the process, less those of the segments. On Linux.
  std::optional<Outside> outside() const override;

 private:
  std::map<const void*, std::size_t> segments_;  // its nodes are small, so that no step takes a large piece for them
};

/// Hands out addresses that nothing may touch: the bookkeeping of a device without the device.
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
