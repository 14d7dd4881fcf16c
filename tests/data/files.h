#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/error.h"
#include "tests/support/file_limits.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::data {

using Bytes = std::vector<std::byte>;

/// A folder that files are written into.
class TemporaryDir : public test::TemporaryDir {
 public:
  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    const auto file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    test::set_content(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return file;
  }
};

/// Sets an environment variable, or unsets it, and puts the old value back.
class Environment {
 public:
  Environment(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Environment() { set(old_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value)
      setenv(name_, value->c_str(), 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> old_;
};

inline Bytes bytes(std::initializer_list<int> values) {
  Bytes b;
  for (int v : values) b.push_back(static_cast<std::byte>(v));
  return b;
}

/// An IDX header for elements of type `code`.
inline Bytes idx_header(int code, const std::vector<std::uint32_t>& shape) {
  Bytes b = bytes({0, 0, code, static_cast<int>(shape.size())});
  for (std::uint32_t n : shape)
    for (int shift = 24; shift >= 0; shift -= 8) b.push_back(static_cast<std::byte>(n >> shift));
  return b;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes gzip(const Bytes& plain) {
  z_stream z{};
  if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  Bytes packed(deflateBound(&z, plain.size()));
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

/// What f's exception of type E says; fails where it throws none, or another.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); } catch (const std::exception& e) {
    ADD_FAILURE() << "threw another exception: " << e.what();
    return {};
  }
  ADD_FAILURE() << "threw nothing";
  return {};
}

/// Of find(folder): a folder below `dir` that is there and cannot be read is told apart from one that is not there.
template <class Find>
void expect_must_be_readable(const Find& find, const std::filesystem::path& dir) {
  using std::filesystem::perms;
  const auto secret = dir / "secret";
  std::filesystem::create_directory(secret);
  std::filesystem::permissions(dir, perms::owner_all | perms::group_exec | perms::others_exec);
  std::filesystem::permissions(secret, perms::none);
  EXPECT_TRUE(test::holds_for_a_user([&] {
    return error_of<FileError>([&] { find(secret); })
        .ends_with(secret.string() + ": cannot read this folder: Permission denied");
  }));
  std::filesystem::permissions(secret, perms::owner_all);  // to be removed
}

}  // namespace bytetape::data
