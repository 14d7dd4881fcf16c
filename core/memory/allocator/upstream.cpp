#include "bytetape/core/memory/allocator/upstream.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "bytetape/core/integers.h"
#include "bytetape/core/memory/allocator/cgroup.h"
#include "bytetape/core/memory/allocator/resident.h"

namespace bytetape::memory {
namespace {
constexpr std::size_t page = 4096, huge_page = std::size_t{2} << 20;
}

void* HostUpstream::allocate(std::size_t bytes) noexcept {
  const bool large = bytes >= huge_page;
  void* data = nullptr;
  if (posix_memalign(&data, large ? huge_page : page, bytes) != 0) return nullptr;
  try {
    segments_.emplace(data, bytes);
  } catch (const std::bad_alloc&) {
    std::free(data);
    return nullptr;
  }
  if (large) madvise(data, bytes / page * page, MADV_HUGEPAGE);  // a hint; refusal only costs speed
  return data;
}

void HostUpstream::deallocate(void* data, std::size_t) noexcept {
  segments_.erase(data);
  std::free(data);
}

std::size_t HostUpstream::capacity() const {
  static const std::size_t bytes = [] {
    const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
    return std::min(pages * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE)), cgroup_memory_limit());
  }();
  return bytes;
}

std::optional<Outside> HostUpstream::outside() const {
  const std::optional<std::size_t> process = resident_bytes();
  std::size_t ours = 0;
  for (const auto& [data, bytes] : segments_) {
    const std::optional<std::size_t> resident = resident_bytes(data, bytes);
    if (!resident) return std::nullopt;
    ours += *resident;
  }
  if (!process) return std::nullopt;
  return Outside{*process - std::min(*process, ours), {}};  // may be less, because the system counts pages late
}

void* SimulatedUpstream::allocate(std::size_t bytes) noexcept {
  if (bytes > capacity_ - used_) return nullptr;
  used_ += bytes;
  const std::uintptr_t at = next_;
  next_ = round_up(at + bytes, page);
  if (next_ <= at) next_ = page;  // wraps around; simulated addresses are not used
  return reinterpret_cast<void*>(at);
}

void SimulatedUpstream::deallocate(void*, std::size_t bytes) noexcept { used_ -= bytes; }

}  // namespace bytetape::memory
