#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "bytetape/core/error.h"

namespace bytetape {

/// Returns file content for a message: control characters, and bytes that are not UTF-8, escaped; at most 500 bytes.
std::string printable(std::string_view text);

/// Bytes of a file or of memory, with random access.
class Input {
 public:
  explicit Input(std::string name) : name_(std::move(name)) {}
  virtual ~Input() = default;
  /// The path, for messages.
  const std::string& name() const { return name_; }
  virtual std::uint64_t size() const = 0;
  std::uint64_t bytes_from(std::uint64_t offset) const { return size() - std::min(size(), offset); }
  /// Reads up to `n` bytes from `offset`, fewer only at the end. Returns their number.
  /// Throws FileError if the bytes cannot be read.
  virtual std::size_t read(std::uint64_t offset, std::byte* to, std::size_t n) const = 0;
  /// Throws FileError if the file was written after it was opened.
  virtual void check_unchanged() const {}

  /// Fills `to`.
  /// Throws FileError if there are too few bytes.
  void read_all(std::uint64_t offset, std::span<std::byte> to) const {
    const std::size_t got = read(offset, to.data(), to.size());
    check_at(got == to.size(), offset, "expected ", to.size(), " bytes, found ", got);
  }
  /// Throws FileError "<name>: at byte <offset>: ..." unless ok. The arguments go through printable().
  template <class... Args>
  void check_at(bool ok, std::uint64_t offset, const Args&... args) const {
    if (!ok) fail<FileError>(name_, ": at byte ", offset, ": ", printable(detail::concat(args...)));
  }

 private:
  std::string name_;
};

/// Opens a file.
/// Throws FileError if it cannot be opened.
std::unique_ptr<const Input> open_input(const std::filesystem::path& path);
/// Reads from memory. `bytes` must outlive the input. `name` replaces the path in messages.
std::unique_ptr<const Input> memory_input(std::span<const std::byte> bytes, std::string name);

}  // namespace bytetape
