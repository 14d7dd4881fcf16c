#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace bytetape::data {

/// A stream of bytes, read once from front to back. The stream is not buffered as a whole.
class Source {
 public:
  virtual ~Source() = default;
  /// Reads up to `n` bytes, and returns their number, which is below `n` only at the end.
  /// Throws FileError if the bytes cannot be read.
  virtual std::size_t read(std::byte* to, std::size_t n) = 0;
  /// Returns an upper bound of the number of bytes left. It is known without reading them, and so limits what a header
  /// may claim.
  virtual std::uint64_t most() const = 0;
  /// Returns true if exactly most() bytes are left.
  virtual bool is_exact() const = 0;
};

/// Opens a file.
/// Throws FileError if `path` is not a file that can be opened.
std::unique_ptr<Source> open_file(const std::filesystem::path& path);
/// Reads from memory. `bytes` must outlive the source.
std::unique_ptr<Source> open_memory(std::span<const std::byte> bytes);
/// Inflates `packed` if it begins with gzip's magic bytes, else returns `packed` itself.
/// Reading throws FileError, naming `name`, if the gzip stream is corrupt, truncated, or followed by other bytes.
std::unique_ptr<Source> inflated(std::unique_ptr<Source> packed, const std::string& name);

}  // namespace bytetape::data
