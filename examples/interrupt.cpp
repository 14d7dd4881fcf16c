#include "examples/interrupt.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace bytetape::examples {
namespace {

// Atomic, because any thread may receive the signal, and sig_atomic_t is safe in one thread only.
std::atomic<int> noted = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // signal handlers may write lock-free atomics only

void handle(void (*handler)(int)) {
  for (const int each : {SIGINT, SIGTERM})
    if (std::signal(each, handler) == SIG_IGN) std::signal(each, SIG_IGN);
}

void note(int signal) {
  noted = signal;
  handle(SIG_DFL);
}

}  // namespace

void catch_interrupts() { handle(note); }

void release_interrupts() { handle(SIG_DFL); }

int interrupted() { return noted; }

}  // namespace bytetape::examples
