#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace bytetape::memory {

/// Where segments come from. Implementations: host memory, a simulation; a backend brings its own.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// At least `bytes`, aligned to 4096; nullptr where there is no more.
  virtual void* allocate(std::size_t bytes) noexcept = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  /// Bytes that this upstream can give in all.
  virtual std::size_t capacity() const = 0;
};

/// Pageable host memory, backed by huge pages where the system grants them.
class HostUpstream final : public Upstream {
 public:
  void* allocate(std::size_t bytes) noexcept override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  std::size_t capacity() const override;  ///< physical memory
};

/// Hands out addresses that nothing may touch: the bookkeeping of a device without the device.
class SimulatedUpstream final : public Upstream {
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
