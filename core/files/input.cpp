#include "bytetape/core/files/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "bytetape/core/characters.h"

namespace bytetape {
namespace {

namespace fs = std::filesystem;

std::string system_message(int error) { return std::generic_category().message(error); }

/// Whether the file was not written to between two calls of stat.
bool is_same(const struct stat& a, const struct stat& b) {
  const auto is_equal = [](const timespec& s, const timespec& t) {
    return s.tv_sec == t.tv_sec && s.tv_nsec == t.tv_nsec;
  };
  return a.st_size == b.st_size && is_equal(a.st_mtim, b.st_mtim);
}

/// An open file, closed by the destructor.
struct Descriptor {
  int number = -1;
  Descriptor() = default;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

class FileInput final : public Input {
 public:
  explicit FileInput(const fs::path& path) : Input(path.string()) {
    check<FileError>(path.native().find('\0') == std::string::npos, name().c_str(),
                     ": expected a path without a zero byte");
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    check<FileError>(status.type() != fs::file_type::not_found, name(), ": no such file");
    check<FileError>(!error, name(), ": cannot be opened: ", error.message());
    check<FileError>(!fs::is_directory(status), name(), ": expected a file, found a directory");
    check<FileError>(fs::is_regular_file(status), name(), ": expected a regular file, found a device, pipe or socket");
    file_.number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    check<FileError>(file_.number >= 0, name(), ": cannot be opened: ", system_message(errno));
    opened_ = status_now();
  }

  std::uint64_t size() const override { return static_cast<std::uint64_t>(opened_.st_size); }
  void check_unchanged() const override {
    check<FileError>(is_same(opened_, status_now()), name(), ": was written to while it was read");
  }
  std::size_t read(std::uint64_t offset, std::byte* to, std::size_t n) const override {
    std::size_t done = 0;
    while (done < n) {
      const ssize_t got = ::pread(file_.number, to + done, n - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      check<FileError>(got >= 0, name(), ": cannot be read: ", system_message(errno));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  /// The status of the opened file. The path may lead to another file by now.
  struct stat status_now() const {
    struct stat status {};
    check<FileError>(::fstat(file_.number, &status) == 0, name(), ": cannot read its size: ", system_message(errno));
    return status;
  }

  Descriptor file_;
  struct stat opened_ {};
};

class MemoryInput final : public Input {
 public:
  MemoryInput(std::span<const std::byte> bytes, std::string name) : Input(std::move(name)), bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::size_t read(std::uint64_t offset, std::byte* to, std::size_t n) const override {
    const auto left = bytes_.subspan(std::min<std::size_t>(offset, bytes_.size()));
    n = std::min(n, left.size());
    std::copy_n(left.begin(), n, to);
    return n;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t most = 500;
  std::string out;
  for (std::string_view rest = text.substr(0, most); !rest.empty();) {
    const std::string_view character = first_character(rest);
    const auto first = static_cast<unsigned char>(character[0]);
    const bool is_shown = character.size() > 1 || (first >= 0x20 && first < 0x7f);
    out += is_shown ? std::string(character) : fmt::format("\\x{:02x}", first);
    rest.remove_prefix(character.size());
  }
  return text.size() > most ? out + "..." : out;
}

std::unique_ptr<const Input> open_input(const fs::path& path) { return std::make_unique<FileInput>(path); }
std::unique_ptr<const Input> memory_input(std::span<const std::byte> bytes, std::string name) {
  return std::make_unique<MemoryInput>(bytes, std::move(name));
}

}  // namespace bytetape
