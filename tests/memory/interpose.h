#pragma once
#include <array>
#include <cstddef>

namespace bytetape::test {

/// One recorded call; fixed size, for nothing may allocate while it is recorded.
struct RawCall {
  const char* function = nullptr;
  std::size_t bytes = 0;
  std::array<void*, 24> frames{};
  int frame_count = 0;
};

/// From now on, calls for `at_least` bytes and more are recorded, on every thread.
void start_recording(std::size_t at_least);
struct Recording {
  const RawCall* calls;
  std::size_t count;
  std::size_t overflow;
};
/// Stops; what was recorded stays readable until the next start.
Recording stop_recording();

}  // namespace bytetape::test
