#pragma once
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "bytetape/core/device/device.h"

namespace bytetape::test {

/// A call of the malloc family, of operator new or of mmap that asked for much.
struct BigCall {
  std::string function;
  std::size_t bytes = 0;
  std::vector<std::string> stack;  // innermost first
};

struct Escapes {
  std::vector<BigCall> calls;  // that are not the allocator's
  std::size_t segments = 0;    // calls that are: one for each segment that the log says was taken
  std::size_t tracked = 0;     // bytes that the step took from the allocator
  std::size_t overflow = 0;    // big calls past what can be recorded
  bool none() const { return calls.empty() && overflow == 0; }
};
std::ostream& operator<<(std::ostream& out, const Escapes& e);

/// Runs `step` and lists what took `at_least` bytes or more past the allocator of `device`, on any thread:
///
///     run_once();                                // first uses: threads, tables, caches of the libraries
///     const Escapes e = count_escapes(run_once);
///     EXPECT_TRUE(e.none()) << e;
///
/// Clears the allocator's log. Only in the program that tests/memory builds, which puts itself before malloc.
Escapes count_escapes(const std::function<void()>& step, Device device = {}, std::size_t at_least = 4096);

}  // namespace bytetape::test
