#pragma once
#include <cstdint>

namespace bytetape::memory {

/// Replaces thread_number() of this thread for a C++ scope. Used to recompute a ledger from a recording.
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
