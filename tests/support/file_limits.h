#pragma once
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

namespace bytetape::test {

/// While it lives, no file of this process grows past `bytes`, as on a disk that is full by then.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*signal_)(int);
};

/// The exit status of a process that does f() alone; 1 where it ends in another way.
template <class F>
int status_of_process(const F& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// f() in a process that permissions apply to, as they do not to root.
template <class F>
bool holds_for_a_user(const F& f) {
  return 0 == status_of_process([&] {
           constexpr uid_t nobody = 65534;
           const bool is_user = geteuid() != 0 || setuid(nobody) == 0;
           return is_user && f() ? 0 : 1;
         });
}

/// f() in a process to which `folder` is an empty disk of 64 KiB; nothing where none can be mounted, as only root can.
template <class F>
std::optional<bool> holds_on_a_small_disk(const std::string& folder, const F& f) {
  constexpr int unmounted = 2;
  const int status = status_of_process([&] {
    const bool is_mounted = unshare(CLONE_NEWNS) == 0 &&
                            mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                            mount("none", folder.c_str(), "tmpfs", 0, "size=64k") == 0;
    return !is_mounted ? unmounted : f() ? 0 : 1;
  });
  return status == unmounted ? std::nullopt : std::optional(status == 0);
}

}  // namespace bytetape::test
