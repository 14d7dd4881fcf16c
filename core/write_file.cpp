#include "bytetape/core/write_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "bytetape/core/error.h"

namespace bytetape {
namespace {

namespace fs = std::filesystem;

struct Target {
  fs::path path;
  fs::path part;  ///< temporary file that is renamed to `path` at the end; empty if `path` is written directly
};

/// Returns the target of a chain of symlinks, which need not exist.
fs::path followed(fs::path path) {
  std::error_code ignored;  // a path that cannot be read is not a link
  while (fs::is_symlink(path, ignored)) path = path.parent_path() / fs::read_symlink(path, ignored);
  return path;
}

Target target_of(const std::string& name, const std::string& what) {
  check<FileError>(name.find('\0') == std::string::npos, "cannot write ", what, " to '", name.c_str(),
                   "': expected a path without a zero byte");
  const fs::path path = name;
  std::error_code ignored;  // opening reports the error
  const fs::file_type type = fs::status(path, ignored).type();
  if (type != fs::file_type::regular && type != fs::file_type::not_found)
    return {path, {}};  // also for a loop of links
  const fs::path target = followed(path);
  return {target, target.string() + ".part"};
}

/// A temporary file beside the target. It is locked, and the destructor removes it unless it was renamed.
class Part {
 public:
  explicit Part(const fs::path& path)
      : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)) {
    if (file_ < 0 || is_ours()) return;
    ::close(std::exchange(file_, -1));
    errno = EBUSY;
  }
  ~Part() {
    if (file_ < 0) return;
    const int before = errno;
    if (!is_renamed_) ::unlink(path_.c_str());
    ::close(file_);
    errno = before;
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  bool is_open() const { return file_ >= 0; }
  /// Copies the permissions of the target, if it exists.
  bool take_mode_of(const fs::path& target) const {
    std::error_code error;
    const fs::file_status old = fs::status(target, error);
    return old.type() == fs::file_type::not_found || ::fchmod(file_, static_cast<mode_t>(old.permissions())) == 0;
  }
  bool rename_to(const fs::path& target) { return is_renamed_ = std::rename(path_.c_str(), target.c_str()) == 0; }

 private:
  /// Locks the file if the file system can. Returns false if another writer has the lock or has just renamed the file.
  bool is_ours() const {
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    struct stat opened = {}, named = {};
    return ::fstat(file_, &opened) == 0 && ::stat(path_.c_str(), &named) == 0 && opened.st_ino == named.st_ino;
  }

  const fs::path& path_;
  int file_;
  bool is_renamed_ = false;
};

using Write = std::function<void(std::ostream&)>;

bool write_through(const fs::path& path, const Write& write) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (out) write(out);
  out.close();
  return out.good();
}

fs::path folder_of(const Target& target) {
  const fs::path folder = target.path.parent_path();
  return folder.empty() ? "." : folder;
}

/// Waits until a file, or the names in a folder, are safe from a loss of power.
bool sync(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  return done;
}

/// Syncs a folder. Succeeds if it cannot be opened for reading or if the file system cannot sync folders.
bool sync_folder(const fs::path& folder) { return sync(folder) || errno == EACCES || errno == EINVAL; }

bool is_writable_or_new(const fs::path& path) {
  const bool is = ::access(path.c_str(), W_OK) == 0 || errno == ENOENT;
  if (is) errno = 0;
  return is;
}

bool write_and_rename(const Target& target, const Write& write) {
  if (!is_writable_or_new(target.path)) return false;
  Part part(target.part);
  return part.is_open() && part.take_mode_of(target.path) && write_through(target.part, write) && sync(target.part) &&
         part.rename_to(target.path) && sync_folder(folder_of(target));
}

bool may_replace(const Target& target) {
  if (!is_writable_or_new(target.path) || !is_writable_or_new(target.part)) return false;
  return ::access(folder_of(target).c_str(), W_OK | X_OK) == 0;
}

bool may_write_through(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return ::access(path.c_str(), W_OK) == 0;
  errno = EISDIR;
  return false;
}

void check_done(bool done, const std::string& path, const std::string& what) {
  if (!done)
    fail<FileError>("cannot write ", what, " to '", path, "': ", errno ? std::strerror(errno) : "unknown error");
}

}  // namespace

void write_file(const std::string& path, const std::string& what, const Write& write) {
  const Target target = target_of(path, what);
  errno = 0;
  check_done(target.part.empty() ? write_through(path, write) : write_and_rename(target, write), path, what);
}

void check_writable(const std::string& path, const std::string& what) {
  const Target target = target_of(path, what);
  errno = 0;
  check_done(target.part.empty() ? may_write_through(path) : may_replace(target), path, what);
}

}  // namespace bytetape
