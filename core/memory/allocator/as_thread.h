#pragma once
#include <cstdint>

namespace bytetape::memory {

/// While it lives, thread_number() of this thread is another's: for books that are written again from a recording.
class AsThread {
 public:
  [[nodiscard]] explicit AsThread(std::uint64_t number);
  ~AsThread();
  AsThread(const AsThread&) = delete;
  AsThread& operator=(const AsThread&) = delete;

 private:
  const std::uint64_t own_;
};

}  // namespace bytetape::memory
