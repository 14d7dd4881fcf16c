#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iostream>

#include "core/error.h"

namespace bytetape::bench {

/// Median, smallest and largest of seven bursts, in nanoseconds a call.
struct Timing {
  double median, min, max;
};

/// Times `burst` calls of f and one of finish, which waits for them, seven times, after a warm-up.
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

/// What main returns of a program: 1, and the message on stderr, where `body` throws an Error.
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
