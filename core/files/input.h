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

/// What is said of a file's content, for a terminal: control characters escaped, and no longer than 500 bytes.
std::string printable(std::string_view text);

/// Bytes of a file, or of memory, that are read from wherever one likes.
class Input {
 public:
  explicit Input(std::string name) : name_(std::move(name)) {}
  virtual ~Input() = default;
  /// The path, for messages.
  const std::string& name() const { return name_; }
  virtual std::uint64_t size() const = 0;
  std::uint64_t bytes_from(std::uint64_t offset) const { return size() - std::min(size(), offset); }
  /// Up to `n` bytes from `offset` on; fewer only at the end. Throws FileError where the bytes cannot be had.
  virtual std::size_t read(std::uint64_t offset, std::byte* to, std::size_t n) const = 0;
  /// Throws FileError where the file was written to since it was opened.
  virtual void check_unchanged() const {}

  /// Fills `to`. Throws FileError where there are too few bytes.
  void read_all(std::uint64_t offset, std::span<std::byte> to) const {
    const std::size_t got = read(offset, to.data(), to.size());
    check_at(got == to.size(), offset, "expected ", to.size(), " bytes, found ", got);
  }
  /// Throws FileError "<name>: at byte <offset>: ..." unless ok; the rest as printable() has it.
  template <class... Args>
  void check_at(bool ok, std::uint64_t offset, const Args&... args) const {
    if (!ok) fail<FileError>(name_, ": at byte ", offset, ": ", printable(detail::concat(args...)));
  }

 private:
  std::string name_;
};

/// Throws FileError unless `path` is a file that can be opened.
std::unique_ptr<const Input> open_input(const std::filesystem::path& path);
/// `bytes` must outlive the input; `name` stands for the path in messages.
std::unique_ptr<const Input> memory_input(std::span<const std::byte> bytes, std::string name);

}  // namespace bytetape
