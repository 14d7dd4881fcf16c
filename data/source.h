#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace bytetape::data {

/// Bytes that are read once, front to back. Nothing is buffered whole.
class Source {
 public:
  virtual ~Source() = default;
  /// Up to `n` bytes; fewer only at the end. Throws FileError where the bytes cannot be had.
  virtual std::size_t read(std::byte* to, std::size_t n) = 0;
  /// The most bytes that are left to read. Known without reading them, so it bounds what a header may claim.
  virtual std::uint64_t most() const = 0;
  /// True where exactly most() bytes are left.
  virtual bool is_exact() const = 0;
};

/// Throws FileError unless `path` is a file that can be opened.
std::unique_ptr<Source> open_file(const std::filesystem::path& path);
/// `bytes` must outlive the source.
std::unique_ptr<Source> open_memory(std::span<const std::byte> bytes);
/// What a gzip stream in `packed` inflates to, or `packed` itself where its first bytes are not gzip's magic. Reading
/// throws FileError, naming `name`, where the stream is corrupt, cut off, or followed by other bytes.
std::unique_ptr<Source> inflated(std::unique_ptr<Source> packed, const std::string& name);

}  // namespace bytetape::data
