#pragma once
#include <atomic>
#include <thread>

namespace bytetape::memory {

/// A lock for critical sections of some tens of nanoseconds, for std::lock_guard. Locking is one atomic exchange,
/// unlocking one store. A thread that waits long yields.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; held_.exchange(true, std::memory_order_acquire);)
      while (held_.load(std::memory_order_relaxed))
        if (++spins > 100) std::this_thread::yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace bytetape::memory
