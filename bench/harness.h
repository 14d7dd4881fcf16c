#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iostream>

#include "core/error.h"

namespace bytetape::bench {

/// The median, minimum and maximum of seven bursts, in nanoseconds per call.
struct Timing {
  double median, min, max;
};

/// Times seven bursts after a warm-up. A burst is `burst` calls of f and a call of finish, which waits for them.
template <class F>
Timing time(
    int warmup, int burst, F&& f, const std::function<void()>& finish = [] {}) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < warmup; ++i) f();
  finish();
  std::array<double, 7> t;
  for (double& each : t) {
    const auto start = Clock::now();
    for (int i = 0; i < burst; ++i) f();
    finish();
    each = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / burst;
  }
  std::sort(t.begin(), t.end());
  return {t[3], t.front(), t.back()};
}

/// Runs `body` and returns the exit status. If it throws an Error, prints the message to stderr and returns 1.
template <class F>
int run(const char* name, F&& body) {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    std::cerr << name << ": " << e.what() << '\n';
    return 1;
  }
}

}  // namespace bytetape::bench
