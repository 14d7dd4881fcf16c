#include "bytetape/core/memory/allocator/resident.h"

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#endif

namespace bytetape::memory {

#ifdef __linux__

namespace {

std::size_t page_size() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

}  // namespace

// Reads the page tables. /proc/self/statm sums counts per processor and is late: on a machine with many processors it
// was 24 MB off.
std::optional<std::size_t> resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  std::size_t kib = 0;
  while (file >> word)
    if (word == "Rss:" && file >> kib) return kib << 10;
  return std::nullopt;
}

std::optional<std::size_t> resident_bytes(const void* data, std::size_t bytes) {
  std::array<unsigned char, 4096> pages{};  // one for each page; the lowest bit is set if it is resident
  std::size_t resident = 0;
  const std::size_t most = pages.size() * page_size();
  for (std::size_t done = 0; done < bytes; done += most) {
    const std::size_t length = std::min(most, bytes - done);
    void* at = const_cast<char*>(static_cast<const char*>(data) + done);  // mincore does not write
    if (mincore(at, length, pages.data()) != 0) return std::nullopt;
    const std::size_t count = (length + page_size() - 1) / page_size();
    for (std::size_t i = 0; i < count; ++i) resident += (pages[i] & 1) * page_size();
  }
  return std::min(resident, bytes);
}

#else

std::optional<std::size_t> resident_bytes() { return std::nullopt; }
std::optional<std::size_t> resident_bytes(const void*, std::size_t) { return std::nullopt; }

#endif

}  // namespace bytetape::memory
