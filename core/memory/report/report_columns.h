#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bytetape::memory {

/// What a column of a page is and where it lies.
struct ReportColumn {
  const char* type;       ///< of an element: "u8", "u16", "u32" or "f64"
  std::uint64_t scale;    ///< what elements are multiplied with
  std::size_t at, count;  ///< the first byte; elements
};

/// Columns of whole numbers on their way into a page: each as elements of the smallest type that holds it,
/// little-endian, at a multiple of 8 bytes, large ones after division by 512 where that leaves no rest.
class ReportColumns {
 public:
  /// Appends a column. Numbers from 2^53 on are not exact.
  ReportColumn add(const std::vector<std::uint64_t>& values);
  /// All of them, deflated (RFC 1950), in base64.
  std::string text() const;

 private:
  template <class T>
  void append(const std::vector<std::uint64_t>& values, std::uint64_t scale);

  std::string bytes_;
};

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace bytetape::memory
