#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace bytetape::examples {

/// What the line shows besides how far it is.
struct ProgressNumbers {
  double loss = 0;
  std::string figure;  // "acc 98.72 %"
  double images_per_s = 0;
  std::size_t memory = 0, peak_memory = 0;  // bytes
};

/// One live line on a terminal, redrawn ten times a second at most; elsewhere a plain line at every quarter.
class Progress {
 public:
  /// Of `total`, `done` are there already.
  Progress(std::string title, std::int64_t done, std::int64_t total, std::FILE* out);
  /// Asks for the numbers where it draws the line, and else not: to look at them may be a wait for a device.
  void update(std::int64_t done, const std::function<ProgressNumbers()>& numbers);
  /// The last state, left standing.
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
