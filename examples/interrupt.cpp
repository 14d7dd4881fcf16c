#include "examples/interrupt.h"

#include <csignal>

namespace bytetape::examples {
namespace {

constexpr int signals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t noted = 0;

void note(int signal) {
  noted = signal;
  for (const int each : signals) std::signal(each, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
  for (const int each : signals)
    if (std::signal(each, note) == SIG_IGN) std::signal(each, SIG_IGN);
}

int interrupted() { return noted; }

}  // namespace bytetape::examples
