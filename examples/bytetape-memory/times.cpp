#include "examples/bytetape-memory/times.h"

#include <bytetape/core/error.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/times.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "examples/bytetape-memory/recordings.h"
#include "examples/bytetape-memory/time_rows.h"

namespace bytetape::examples {
namespace {

void print_row(const TimeRow& r, std::uint64_t whole, std::size_t width) {
  const std::string calls = r.calls ? memory::format_exact(r.calls) : "";
  fmt::print("  {:<{}}  {:<9} {:>8} {:>9}{:>6}  {}\n", r.name, width, r.phase, calls, memory::format_time(r.time),
             memory::format_share(r.time, whole), memory::format_bar(r.time, whole, 20));
}

void print_table(const std::vector<TimeRow>& rows, const memory::StepTime& step, const std::string& by,
                 std::size_t most) {
  const std::size_t shown = std::min(most, rows.size());
  std::size_t width = 12;
  std::uint64_t calls = 0, rest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    calls += rows[i].calls;
    if (i < shown)
      width = std::max(width, rows[i].name.size());
    else
      rest += rows[i].time;
  }
  fmt::print("  {:<{}}  {:<9} {:>8} {:>9}{:>6}\n", by == "module" ? "module" : "op", width, "phase", "calls", "time",
             "share");
  for (std::size_t i = 0; i < shown; ++i) print_row(rows[i], step.time(), width);
  if (rest) print_row({fmt::format("{} more", rows.size() - shown), "", 0, rest}, step.time(), width);
  print_row({"a step", "", calls, step.time()}, step.time(), width);
}

/// "12 steps after the first, 4.61 s at the median, from 4.52 s to 5.10 s".
std::string spread(const std::vector<memory::StepTime>& steps) {
  std::vector<std::uint64_t> times;
  for (const memory::StepTime& s : steps) times.push_back(s.time());
  std::sort(times.begin(), times.end());
  return fmt::format("{} at the median, from {} to {}", memory::format_time(times[times.size() / 2]),
                     memory::format_time(times.front()), memory::format_time(times.back()));
}

/// The step of that number, or the mean of all steps after the first. Prints which it is.
memory::StepTime chosen(const std::vector<memory::StepTime>& steps, std::uint32_t number) {
  check<ValueError>(!steps.empty(),
                    "times: the recording has no times of a complete step: mark steps with memory::Step, and record a "
                    "run, not a prediction");
  if (number) {
    const auto at = std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.step == number; });
    check<ValueError>(at != steps.end(), "times: the recording has no complete step ", number, "; it has steps ",
                      steps.front().step, " to ", steps.back().step);
    fmt::print("\nstep {}, {}\n", number, memory::format_time(at->time()));
    return *at;
  }
  const std::vector<memory::StepTime> later = later_steps(steps);
  fmt::print("\n{} step{}{}: {}\n", later.size(), later.size() == 1 ? "" : "s",
             steps.size() > 1 ? " after the first" : "", spread(later));
  return memory::mean_of(later);
}

}  // namespace

int times(const std::string& path, std::uint32_t step, const std::string& by, std::size_t most) {
  const memory::Log log = read_recording(path);
  fmt::print("{}", headline(log, path));
  const memory::StepTime shown = chosen(memory::step_times(log), step);
  fmt::print("time of the host{}\n\n", step ? "" : ", mean of these steps");
  print_table(time_rows(log, shown, by), shown, by, most);
  return status_of(log);
}

}  // namespace bytetape::examples
