#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bytetape::memory {

/// The type and the place of a column in a page.
struct ReportColumn {
  const char* type;       ///< element type: "u8", "u16", "u32" or "f64"
  std::uint64_t scale;    ///< factor of the stored elements
  std::size_t at, count;  ///< offset in bytes; number of elements
};

/// Packs columns of integers for a page. Each column has the smallest type that holds it, in little-endian order, at a
/// multiple of 8 bytes. Columns of multiples of 512 are divided by 512 if they are too large otherwise.
class ReportColumns {
 public:
  /// Appends a column. Numbers from 2^53 on are not exact.
  ReportColumn add(const std::vector<std::uint64_t>& values);
  /// All columns, deflated (RFC 1950), as base64.
  std::string text() const;

 private:
  template <class T>
  void append(const std::vector<std::uint64_t>& values, std::uint64_t scale);

  std::string bytes_;
};

/// Encodes bytes as base64 (RFC 4648) with padding.
std::string base64(std::string_view bytes);

}  // namespace bytetape::memory
