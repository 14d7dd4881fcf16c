#include "bytetape/core/files/input.h"

#include <array>

#include "tests/support/expect.h"
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
