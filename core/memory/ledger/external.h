#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace bytetape::memory {

/// The memory of a device that tensors use and other libraries own. The ledger's other bytes do not include it.
struct External {
  std::size_t bytes = 0;  ///< now; bytes that several tensors wrap count once
  std::size_t peak = 0;   ///< the most at once

  friend bool operator==(const External&, const External&) = default;
};

/// Counts the bytes that at least one of several overlapping ranges covers. Thread-safe.
class ExternalRanges {
 public:
  /// Throws std::bad_alloc, and changes nothing.
  void add(const void* data, std::size_t bytes);
  /// Removes a range that add() got. Another thread may have added it.
  void remove(const void* data, std::size_t bytes) noexcept;
  void reset_peak();
  External total() const;

 private:
  /// An address where a range begins or ends.
  struct Border {
    std::size_t ranges = 0;  ///< number of ranges that begin or end here
    std::size_t cover = 0;   ///< number of ranges that cover the bytes from here to the next border
  };
  using Borders = std::map<std::uintptr_t, Border>;
  Borders::iterator border_at(std::uintptr_t address);
  void drop_use(Borders::iterator it) noexcept;

  mutable std::mutex mutex_;
  Borders borders_;
  External total_;
};

}  // namespace bytetape::memory
