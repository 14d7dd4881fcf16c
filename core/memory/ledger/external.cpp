#include "bytetape/core/memory/ledger/external.h"

#include <algorithm>
#include <iterator>

namespace bytetape::memory {
namespace {
std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }
}  // namespace

void ExternalRanges::add(const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const auto first = border_at(address(data));
  Borders::iterator last;
  try {
    last = border_at(address(data) + bytes);
  } catch (...) {
    if (first->second.ranges == 0) borders_.erase(first);
    throw;
  }
  ++first->second.ranges;
  ++last->second.ranges;
  for (auto it = first; it != last; ++it)
    if (it->second.cover++ == 0) total_.bytes += std::next(it)->first - it->first;
  total_.peak = std::max(total_.peak, total_.bytes);
}

void ExternalRanges::remove(const void* data, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const auto first = borders_.find(address(data)), last = borders_.find(address(data) + bytes);
  for (auto it = first; it != last; ++it)
    if (--it->second.cover == 0) total_.bytes -= std::next(it)->first - it->first;
  drop_use(first);
  drop_use(last);
}

void ExternalRanges::reset_peak() {
  const std::lock_guard lock(mutex_);
  total_.peak = total_.bytes;
}

External ExternalRanges::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

/// Returns the border at an address. Inserts it if it is missing.
ExternalRanges::Borders::iterator ExternalRanges::border_at(std::uintptr_t address) {
  const auto next = borders_.lower_bound(address);
  if (next != borders_.end() && next->first == address) return next;
  const std::size_t cover = next == borders_.begin() ? 0 : std::prev(next)->second.cover;
  return borders_.emplace_hint(next, address, Border{0, cover});
}

void ExternalRanges::drop_use(Borders::iterator it) noexcept {
  if (--it->second.ranges == 0) borders_.erase(it);
}

}  // namespace bytetape::memory
