#include "bytetape/core/write_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bytetape/core/error.h"
#include "tests/support/expect.h"
#include "tests/support/file_limits.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

/// What the library asked the system for, in order, while `is_noting`.
struct Calls {
  bool is_noting = false;
  std::vector<std::string> made;
};
Calls calls;

std::string path_of(int file) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)).string();
}

void note(const std::string& call) {
  if (calls.is_noting) calls.made.push_back(call);
}

}  // namespace
}  // namespace bytetape

// This program's own: the linker finds them before the C library's. They do the same.
extern "C" int fsync(int file) {
  struct stat s = {};
  ::fstat(file, &s);
  const std::string size = S_ISREG(s.st_mode) ? " of " + std::to_string(s.st_size) + " bytes" : "";
  bytetape::note("fsync " + bytetape::path_of(file) + size);
  return static_cast<int>(::syscall(SYS_fsync, file));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  bytetape::note(std::string("rename ") + from + " to " + to);
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace bytetape {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class WriteFile : public testing::Test {
 protected:
  static void write(const fs::path& path, const std::string& text) {
    write_file(path, "the greeting", [&](std::ostream& out) { out << text; });
  }
  static std::string content(const fs::path& path) { return test::content_of(path); }
  std::ptrdiff_t files() const { return dir_.files(); }

  /// What both functions say, which must be the same.
  static std::string error_of(const fs::path& path) {
    std::string checked, written;
    try {
      check_writable(path, "the greeting");
    } catch (const FileError& e) { checked = e.what(); }
    try {
      write(path, "hello");
    } catch (const FileError& e) { written = e.what(); }
    EXPECT_EQ(checked, written);
    return written;
  }

  const test::TemporaryDir dir_;
  const fs::path folder_ = dir_.path();
};

TEST_F(WriteFile, AppearsAndIsReplacedWholeAndAlone) {
  const fs::path path = folder_ / "greeting";
  check_writable(path, "the greeting");
  EXPECT_EQ(files(), 0) << "a check changes nothing";
  write(path, "a long hello");
  write(path, "hello");
  check_writable(path, "the greeting");
  EXPECT_EQ(content(path), "hello");
  EXPECT_EQ(files(), 1);
}

// So that a loss of power leaves the old file or the new one: the bytes lie on the disk before their name does.
TEST_F(WriteFile, IsOnTheDiskBeforeItTakesItsPlace) {
  const fs::path path = fs::canonical(folder_) / "greeting";
  const std::string text(100'000, 'x'), part = path.string() + ".part";
  for (const char* what : {"made", "replaced"}) {
    calls = {.is_noting = true};
    write(path, text);
    calls.is_noting = false;
    EXPECT_THAT(calls.made,
                testing::ElementsAre("fsync " + part + " of 100000 bytes", "rename " + part + " to " + path.string(),
                                     "fsync " + path.parent_path().string()))
        << what;
  }
}

TEST_F(WriteFile, AnyExceptionLeavesTheOldFileAlone) {
  const fs::path path = folder_ / "greeting";
  write(path, "hello");
  const auto broken = [](std::ostream& out) {
    out << "good";
    throw std::runtime_error("no more words");
  };
  EXPECT_THROW(write_file(path, "the greeting", broken), std::runtime_error);
  EXPECT_EQ(content(path), "hello");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, OfTwoWritersTheSecondFails) {
  const fs::path path = folder_ / "greeting";
  write(path, "hello");
  write_file(path, "the greeting", [&](std::ostream& out) {
    out << "good ";
    EXPECT_THROW(write(path, "me first"), FileError);
    EXPECT_EQ(content(path), "hello");
    out << "day";
  });
  EXPECT_EQ(content(path), "good day");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, OfTwoWritersOfANewFileTheSecondFails) {
  const fs::path path = folder_ / "greeting";
  write_file(path, "the greeting", [&](std::ostream& out) {
    out << "good " << std::flush;
    EXPECT_THROWS_SAYING(write(path, "me first"), FileError, "greeting': Device or resource busy");
    EXPECT_FALSE(fs::exists(path));
    out << "day";
  });
  EXPECT_EQ(content(path), "good day");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, WhatAnEndedWriterLeftIsNobodys) {
  const fs::path path = folder_ / "greeting";
  std::ofstream(path.string() + ".part") << "a long, long hel";
  write(path, "hello");
  EXPECT_EQ(content(path), "hello");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, AFailedStreamIsAnErrorAndLeavesTheOldFileAlone) {
  const fs::path path = folder_ / "greeting";
  write(path, "hello");
  const auto broken = [](std::ostream& out) { out.setstate(std::ios::badbit); };
  EXPECT_THROWS_SAYING(write_file(path, "the greeting", broken), FileError, "greeting': unknown error");
  EXPECT_EQ(content(path), "hello");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, ALinkStaysAndItsTargetIsReplaced) {
  fs::create_directory(folder_ / "below");
  fs::create_symlink("below/second", folder_ / "first");
  fs::create_symlink(folder_ / "target", folder_ / "below/second");
  for (const char* text : {"made", "replaced"}) {  // where the links dangle, and where they do not
    check_writable(folder_ / "first", "the greeting");
    write(folder_ / "first", text);
    EXPECT_TRUE(fs::is_symlink(folder_ / "first") && fs::is_symlink(folder_ / "below/second"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "target")));
    EXPECT_EQ(content(folder_ / "target"), text);
  }
  EXPECT_EQ(files(), 3);
}

TEST_F(WriteFile, AFifoIsWrittenStraightThrough) {
  const fs::path fifo = folder_ / "fifo", link = folder_ / "link";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink("fifo", link);
  check_writable(fifo, "the greeting");  // which must not wait for a reader
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  for (const fs::path& path : {fifo, link}) {
    write(path, "hello");
    std::array<char, 16> text{};
    EXPECT_EQ(read(reader, text.data(), text.size()), 5);
    EXPECT_STREQ(text.data(), "hello");
  }
  close(reader);
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_EQ(files(), 2);
}

TEST_F(WriteFile, AFullDiskLeavesTheOldFileAlone) {
  const fs::path path = folder_ / "greeting";
  write(path, "hello");
  {
    const test::FileSizeLimit limit(1 << 16);
    for (const std::size_t n : {(1 << 16) + 1, 1 << 20})
      EXPECT_THROWS_SAYING(write(path, std::string(n, 'x')), FileError, "': File too large");
  }
  EXPECT_EQ(content(path), "hello");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, AReadOnlyFolderKeepsTheOldFile) {
  const fs::path path = folder_ / "greeting";
  write(path, "hello");
  fs::permissions(folder_,
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const auto refused = [&] {
    return error_of(path) == "cannot write the greeting to '" + path.string() + "': Permission denied";
  };
  EXPECT_TRUE(test::holds_for_a_user(refused));
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(content(path), "hello");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, WhatCannotBeWrittenIsSaidBeforehandAlike) {
  fs::create_symlink("loop", folder_ / "loop");
  std::ofstream(folder_ / "file") << "no folder";
  const std::string missing = folder_ / "missing" / "greeting";
  EXPECT_EQ(error_of(missing), "cannot write the greeting to '" + missing + "': No such file or directory");
  EXPECT_THAT(error_of(folder_), HasSubstr("': Is a directory"));
  EXPECT_THAT(error_of(folder_ / "loop"), HasSubstr("': Too many levels of symbolic links"));
  EXPECT_THAT(error_of(folder_ / "file" / "greeting"), HasSubstr("': Not a directory"));
  EXPECT_THAT(error_of(folder_ / std::string(300, 'x')), HasSubstr("': File name too long"));
  EXPECT_THAT(error_of(folder_ / std::string(252, 'x')), HasSubstr("': File name too long")) << "that of the part";
  EXPECT_EQ(files(), 2);
}

TEST_F(WriteFile, KeepsPermissionsAndWhatIsReadOnly) {
  const fs::path path = folder_ / "greeting";
  const mode_t before = umask(027);
  write(path, "hello");
  umask(before);
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640)) << "of a new file: those of any";
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  write(path, "good day");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(path, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(folder_, fs::perms::all);
  EXPECT_TRUE(test::holds_for_a_user([&] {
    return error_of(path) == "cannot write the greeting to '" + path.string() + "': Permission denied" &&
           content(path) == "good day";
  }));
}

}  // namespace
}  // namespace bytetape
