#include "bytetape/data/source.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "bytetape/core/error.h"

namespace bytetape::data {
namespace {

std::string system_message(int error) { return std::generic_category().message(error); }

class FileSource final : public Source {
 public:
  explicit FileSource(const std::filesystem::path& path) : path_(path) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    check<FileError>(status.type() != fs::file_type::not_found, path_.string(), ": no such file");
    check<FileError>(!error, path_.string(), ": cannot be opened: ", error.message());
    check<FileError>(!fs::is_directory(status), path_.string(), ": expected a file, found a directory");
    check<FileError>(fs::is_regular_file(status), path_.string(), ": expected a regular file");
    file_.reset(std::fopen(path.c_str(), "rb"));
    check<FileError>(file_ != nullptr, path_.string(), ": cannot be opened: ", system_message(errno));
    left_ = fs::file_size(path, error);
    check<FileError>(!error, path_.string(), ": has no size: ", error.message());
  }

  std::size_t read(std::byte* to, std::size_t n) override {
    const std::size_t got = std::fread(to, 1, n, file_.get());
    check<FileError>(!std::ferror(file_.get()), path_.string(), ": cannot be read: ", system_message(errno));
    left_ -= std::min<std::uint64_t>(left_, got);
    return got;
  }
  std::uint64_t most() const override { return left_; }
  bool is_exact() const override { return true; }

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t left_ = 0;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : left_(bytes) {}
  std::size_t read(std::byte* to, std::size_t n) override {
    n = std::min(n, left_.size());
    std::copy_n(left_.begin(), n, to);
    left_ = left_.subspan(n);
    return n;
  }
  std::uint64_t most() const override { return left_.size(); }
  bool is_exact() const override { return true; }

 private:
  std::span<const std::byte> left_;
};

}  // namespace

std::unique_ptr<Source> open_file(const std::filesystem::path& path) { return std::make_unique<FileSource>(path); }
std::unique_ptr<Source> open_memory(std::span<const std::byte> bytes) { return std::make_unique<MemorySource>(bytes); }

}  // namespace bytetape::data
