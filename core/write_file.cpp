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
  fs::path part;  ///< what is renamed to `path` in the end; empty where `path` is written straight through
};

/// What a chain of symlinks leads to, be it there or not.
fs::path followed(fs::path path) {
  std::error_code ignored;  // what cannot be read is no link
  while (fs::is_symlink(path, ignored)) path = path.parent_path() / fs::read_symlink(path, ignored);
  return path;
}

Target target_of(const std::string& name, const std::string& what) {
  check<FileError>(name.find('\0') == std::string::npos, "cannot write ", what, " to '", name.c_str(),
                   "': no path has a zero byte");
  const fs::path path = name;
  std::error_code ignored;  // opening says it again
  const fs::file_type type = fs::status(path, ignored).type();
  if (type != fs::file_type::regular && type != fs::file_type::not_found) return {path, {}};  // a loop of links too
  const fs::path target = followed(path);
  return {target, target.string() + ".part"};
}

/// The file that is written beside its place: nobody else's meanwhile, and removed at the end unless it was renamed.
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
  /// Takes the permissions of what it will replace, where there is something.
  bool take_mode_of(const fs::path& target) const {
    std::error_code error;
    const fs::file_status old = fs::status(target, error);
    return old.type() == fs::file_type::not_found || ::fchmod(file_, static_cast<mode_t>(old.permissions())) == 0;
  }
  bool rename_to(const fs::path& target) { return is_renamed_ = std::rename(path_.c_str(), target.c_str()) == 0; }

 private:
  /// Where files can be locked: whoever has the lock writes, unless the file took its place just before.
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

/// Waits until a file, or the names in a folder, are where a loss of power leaves them.
bool sync(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  return done;
}

/// Some folders may be written but not read, and some file systems cannot sync one: then that is as much as there is.
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
  if (!done) fail<FileError>("cannot write ", what, " to '", path, "': ", errno ? std::strerror(errno) : "it failed");
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
