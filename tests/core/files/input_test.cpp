#include "bytetape/core/files/input.h"

#include <array>
#include <filesystem>
#include <iterator>

#include "tests/support/expect.h"
#include "tests/support/file_limits.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

std::string read(const Input& from, std::uint64_t offset, std::size_t n) {
  std::string bytes(n, '-');
  bytes.resize(from.read(offset, std::as_writable_bytes(std::span(bytes)).data(), n));
  return bytes;
}

TEST(Input, IsReadFromAnywhere) {
  const test::TemporaryDir dir;
  const std::string text = "0123456789";
  test::set_content(dir / "file", text);
  const auto file = open_input(dir / "file"), memory = memory_input(std::as_bytes(std::span(text)), "memory");
  EXPECT_EQ(file->name(), dir / "file");
  EXPECT_EQ(memory->name(), "memory");
  for (const Input* input : {file.get(), memory.get()}) {
    EXPECT_EQ(input->size(), 10u);
    EXPECT_EQ(input->bytes_from(7), 3u);
    EXPECT_EQ(input->bytes_from(11), 0u);
    EXPECT_EQ(read(*input, 3, 4), "3456");
    EXPECT_EQ(read(*input, 0, 20), text);
    EXPECT_EQ(read(*input, 8, 4), "89");
    EXPECT_EQ(read(*input, 10, 4), "");
    EXPECT_EQ(read(*input, 1000, 4), "");
    std::array<std::byte, 4> four{};
    EXPECT_NO_THROW(input->read_all(6, four));
    EXPECT_THROWS_SAYING(input->read_all(7, four), FileError, input->name() + ": at byte 7: expected 4 bytes, found 3");
  }
}

TEST(Input, SaysThatTheSystemCannotReadIt) {
  const test::TemporaryDir dir;
  test::set_content(dir / "file", "text");
  const auto file = open_input(dir / "file");
  EXPECT_THROWS_SAYING(read(*file, std::uint64_t{1} << 63, 4), FileError, "/file: cannot be read: Invalid argument");
}

TEST(Input, ClosesItsFile) {
  const test::TemporaryDir dir;
  test::set_content(dir / "file", "text");
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  {
    const auto file = open_input(dir / "file");
    EXPECT_EQ(open_files(), before + 1);
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Input, SaysWhyAFileCannotBeOpened) {
  const test::TemporaryDir dir;
  std::filesystem::create_symlink("loop", dir / "loop");
  const auto refused = [&](const std::string& name, const std::string& words) {
    EXPECT_THROWS_SAYING(open_input(dir / name), FileError, dir / name + words) << name;
  };
  refused("none", ": no such file");
  refused(std::string(300, 'x'), ": cannot be opened: File name too long");
  refused("loop", ": cannot be opened: Too many levels of symbolic links");
  refused("", ": expected a file, found a directory");
  test::set_content(dir / "secret", "text");
  std::filesystem::permissions(dir / "secret", std::filesystem::perms::none);
  std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
  EXPECT_TRUE(test::holds_for_a_user([&] {
    try {
      open_input(dir / "secret");
    } catch (const FileError& e) { return e.what() == dir / "secret" + ": cannot be opened: Permission denied"; }
    return false;
  }));
  EXPECT_THROWS_SAYING(open_input("/dev/null"), FileError, "expected a regular file, found a device");
  EXPECT_THROWS_SAYING(open_input(std::string("a\0b", 3)), FileError, "expected a path without a zero byte");
}

TEST(Input, MessagesShowControlCharactersInHexAndAreCut) {
  EXPECT_EQ(printable(std::string_view("a\0\x1f ~\x7f\n\xc3\xa4", 9)), "a\\x00\\x1f ~\\x7f\\x0a\xc3\xa4");
  EXPECT_EQ(printable(std::string(500, 'x')), std::string(500, 'x'));
  EXPECT_EQ(printable(std::string(501, 'x')), std::string(500, 'x') + "...");
}

TEST(Input, StaysTheFileThatWasOpened) {
  const test::TemporaryDir dir;
  test::set_content(dir / "file", "old");
  const auto file = open_input(dir / "file");
  test::set_content(dir / "next", "newer");
  std::filesystem::rename(dir / "next", dir / "file");
  EXPECT_EQ(read(*file, 0, 10), "old");
}

}  // namespace
}  // namespace bytetape
