#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape {
namespace memory {
class ExternalRanges;
}  // namespace memory

/// Memory that somebody else owns, while a storage uses it. The device's ledger has it as `external`.
class ExternalMemory {
 public:
  /// `release` may be empty, and must not throw.
  ExternalMemory(const void* data, std::size_t bytes, Device device, std::function<void()> release, bool is_read_only);
  ~ExternalMemory();
  ExternalMemory(const ExternalMemory&) = delete;
  ExternalMemory& operator=(const ExternalMemory&) = delete;

  /// Calls the constructor's `release`. For memory of a GPU, that happens on a thread of its own, once the GPU has done
  /// the work so far of stream `home` and of `streams`, which has a bit for each. Without this call, the owner keeps
  /// the memory.
  void release(std::uint32_t streams, memory::StreamId home) noexcept;
  bool is_read_only() const { return is_read_only_; }

 private:
  memory::ExternalRanges* ranges_;
  const void* data_;
  std::size_t bytes_;
  std::function<void()> release_;
  Device device_;
  bool is_read_only_;
};

namespace detail {
/// As finish_releases(). From then on, owners of GPU memory do not get it back, because they may have ended.
void end_releases();
/// Calls `f` on the thread that calls the releases, once a stream's work is no longer recorded as a graph.
void run_after_recording(Device device, void* stream, std::function<void()> f);
}  // namespace detail

}  // namespace bytetape
