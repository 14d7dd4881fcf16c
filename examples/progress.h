#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace bytetape::examples {

/// The numbers in a progress line.
struct ProgressNumbers {
  double loss = 0;
  std::string figure;  // "acc 98.72 %"
  double rate = 0;
  const char* rate_unit = "img/s";
  std::size_t memory = 0, peak_memory = 0;  // bytes
};

/// A progress line, redrawn at most ten times a second on a terminal. Elsewhere prints a plain line at each quarter.
class Progress {
 public:
  /// `done` of `total` steps are already done.
  Progress(std::string title, std::int64_t done, std::int64_t total, std::FILE* out);
  /// Updates the line. Calls `numbers` only if the line is drawn, because reading them may wait for a device.
  void update(std::int64_t done, const std::function<ProgressNumbers()>& numbers);
  /// Draws the final state, which stays on the terminal.
  void finish(std::int64_t done, const ProgressNumbers& numbers);

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(std::int64_t done, const ProgressNumbers& numbers) const;

  std::string title_;
  std::int64_t first_, total_, next_plain_;
  std::FILE* out_;
  bool live_;
  Clock::time_point start_, drawn_;
};

}  // namespace bytetape::examples
