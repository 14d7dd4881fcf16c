#include "examples/bytetape-memory/times.h"

#include <bytetape/core/error.h>
#include <bytetape/core/memory/ceilings.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/times.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "examples/bytetape-memory/recordings.h"
#include "examples/bytetape-memory/row_order.h"
#include "examples/bytetape-memory/time_rows.h"
#include "examples/bytetape-memory/work_columns.h"

namespace bytetape::examples {
namespace {

/// A time and its share, or blanks for 0.
std::string time_columns(std::uint64_t time, std::uint64_t whole) {
  return fmt::format("{:>9}{:>6}", time ? memory::format_time(time) : "",
                     time ? memory::format_share(time, whole) : "");
}

/// The columns of the device; "" in a step without device times.
std::string device_columns(std::uint64_t time, const memory::StepTime& step) {
  return step.device ? " " + time_columns(time, step.device->span()) : "";
}

/// The bar shows the device's time in a step that has it. Columns of work take its place.
void print_row(const TimeRow& r, const memory::StepTime& step, std::size_t width, bool with_roofline) {
  const std::string calls = r.calls ? memory::format_exact(r.calls) : "";
  const std::string bar = step.is_counted ? work_columns(r, r.work_time, step, with_roofline)
                          : step.device   ? memory::format_bar(r.device_time, step.device->span(), 20)
                                          : memory::format_bar(r.time, step.time(), 20);
  fmt::print("  {:<{}}  {:<9} {:>8} {}{}  {}\n", r.name, width, r.phase, calls, time_columns(r.time, step.time()),
             device_columns(r.device_time, step), bar);
}

void print_table(const std::vector<TimeRow>& rows, const memory::StepTime& step, const std::string& by,
                 std::size_t most) {
  const std::size_t shown = std::min(most, rows.size());
  const bool with_roofline = has_roofline(step);
  std::size_t width = 12;
  TimeRow whole{"a step", ""};
  TimeRow rest{fmt::format("{} more", rows.size() - shown), ""};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    whole.add(rows[i]);
    if (i < shown)
      width = std::max(width, rows[i].name.size());
    else
      rest.add(rows[i]);
  }
  rest.calls = 0;
  whole.time = step.time();
  whole.device_time = step.device ? step.device->span() : 0;
  whole.work_time = step.device ? whole.device_time : step.has_gpu_work ? 0 : step.time();
  fmt::print("  {:<{}}  {:<9} {:>8} {:>9}{:>6}{}{}\n", by == "module" ? "module" : "op", width, "phase", "calls",
             "time", "share", step.device ? fmt::format(" {:>9}{:>6}", "device", "share") : "",
             work_heading(step, with_roofline));
  for (std::size_t i = 0; i < shown; ++i) print_row(rows[i], step, width, with_roofline);
  if (rest.time || rest.device_time || rest.flop || rest.bytes) print_row(rest, step, width, with_roofline);
  if (step.device && step.device->idle())
    print_row({"device idle", "", 0, 0, step.device->idle()}, step, width, with_roofline);
  print_row(whole, step, width, with_roofline);
}

/// The rows of a step, sorted by `column`.
std::vector<TimeRow> sorted_rows(const memory::Log& log, const memory::StepTime& step, const std::string& by,
                                 const std::string& column) {
  std::vector<std::string> columns = {"name", "phase", "calls", "time"};
  if (step.device) columns.push_back("device");
  if (step.is_counted) columns.insert(columns.end(), {"flop", "bytes"});
  check_column(column, columns);
  std::vector<TimeRow> rows = time_rows(log, step, by);
  sort_rows(rows, column);
  return rows;
}

/// "12 steps after the first, 4.61 s at the median, from 4.52 s to 5.10 s".
std::string spread(const std::vector<memory::StepTime>& steps) {
  std::vector<std::uint64_t> times;
  for (const memory::StepTime& s : steps) times.push_back(s.time());
  std::sort(times.begin(), times.end());
  return fmt::format("{} at the median, from {} to {}", memory::format_time(times[times.size() / 2]),
                     memory::format_time(times.front()), memory::format_time(times.back()));
}

/// Prints how much longer steps with device times take on the host than the others, if there are both.
void print_overhead(const std::vector<memory::StepTime>& later) {
  const auto timed = steps_with_device(later, true), others = steps_with_device(later, false);
  if (timed.empty() || others.empty()) return;
  const std::uint64_t with = median_time(timed), without = median_time(others);
  fmt::print("{} of them with device times: {} of the host at the median, {} without\n", timed.size(),
             memory::format_time(with), memory::format_time(without));
}

/// The step of that number, or the mean of all steps after the first. Prints which it is.
memory::StepTime chosen(const std::vector<memory::StepTime>& steps, std::uint32_t number) {
  if (number) {
    const memory::StepTime& step = step_numbered(steps, number);
    fmt::print("\nstep {}, {}\n", number, memory::format_time(step.time()));
    return step;
  }
  const std::vector<memory::StepTime> later = later_steps(steps);
  fmt::print("\n{} step{}{}: {}\n", later.size(), later.size() == 1 ? "" : "s",
             steps.size() > 1 ? " after the first" : "", spread(later));
  print_overhead(later);
  return memory::mean_of(later);
}

/// The step of that number, or all steps with device times after the recording's first step.
std::vector<memory::StepTime> timed_steps(const memory::Log& log, std::uint32_t number) {
  const std::vector<memory::StepTime> steps = memory::step_times(log);
  std::vector<memory::StepTime> timed = steps_with_device(number ? steps : later_steps(steps), true);
  check<ValueError>(!timed.empty(),
                    "times: the recording has no device times of a complete step: record a run on a GPU "
                    "with RecordingOptions::device_times_every, or --device-times of the examples");
  if (number) std::erase_if(timed, [&](const memory::StepTime& s) { return s.step != number; });
  check<ValueError>(!timed.empty(), "times: step ", number, " has no device times");
  return timed;
}

void print_kernels(const std::vector<KernelRow>& rows, std::size_t steps, std::size_t most) {
  std::uint64_t all = 0;
  std::size_t width = 14;
  const std::size_t shown = std::min(most, rows.size());
  for (const KernelRow& r : rows) all += r.time;
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, std::min<std::size_t>(rows[i].kernel.size(), 60));
  fmt::print("\ndevice work of {} step{}: count and time are those of one step, on average\n\n", steps,
             steps == 1 ? "" : "s");
  fmt::print("  {:<{}}  {:>6} {:>9}{:>6}  {}\n", "kernel", width, "count", "time", "share", "op and module");
  for (std::size_t i = 0; i < shown; ++i) {
    const KernelRow& r = rows[i];
    const std::string op = r.op.empty() ? "(no op)" : r.op, in = r.module.empty() ? "" : " in " + r.module;
    const std::string bytes = r.bytes ? ", " + memory::format_bytes(r.bytes / steps) : "";
    fmt::print("  {:<{}}  {:>6} {:>9}{:>6}  {}{}{}\n", r.kernel.substr(0, width), width,
               memory::format_exact((r.count + steps / 2) / steps), memory::format_time(r.time / steps),
               memory::format_share(r.time, all), op, in, bytes);
  }
  if (shown < rows.size()) fmt::print("  {} more\n", rows.size() - shown);
  fmt::print("  {:<{}}  {:>6} {:>9}\n", "a step", width, "", memory::format_time(all / steps));
}

/// The rows of a prediction, sorted by `column`. `time` and "" are the time at the ceilings.
std::vector<TimeRow> predicted_rows(const memory::Log& log, const memory::StepTime& step, const std::string& by,
                                    const std::string& column) {
  check_column(column, {"name", "phase", "time", "flop", "bytes"});
  std::vector<TimeRow> rows = time_rows(log, step, by);
  const auto order = [](const TimeRow& r) { return std::tuple(r.least_time.value_or(0), r.flop, r.bytes); };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return order(a) > order(b); });
  sort_rows(rows, column == "time" ? "" : column);
  return rows;
}

/// Prints the work of a prediction's last step, or of `options.step`.
void print_predicted(const memory::Log& log, const TimesOptions& options) {
  const std::uint32_t number = options.step;
  const std::size_t most = options.rows;
  std::vector<memory::StepTime> steps = memory::step_work(log);
  if (number) std::erase_if(steps, [&](const memory::StepTime& s) { return s.step != number; });
  check<ValueError>(!steps.empty(), "times: the prediction has no step ", number);
  std::vector<TimeRow> rows = predicted_rows(log, steps.back(), options.by, options.sort);
  fmt::print("\nstep {} of a prediction: its work, and the least time at the ceilings of the device\n\n",
             steps.back().step);
  TimeRow whole{"a step", ""}, rest{fmt::format("{} more", rows.size() - std::min(most, rows.size())), ""};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    whole.add(rows[i]);
    if (i >= most) rest.add(rows[i]);
  }
  rows.resize(std::min(most, rows.size()));
  if (rest.bytes || rest.flop) rows.push_back(rest);
  rows.push_back(whole);
  std::size_t width = 12;
  for (const TimeRow& r : rows) width = std::max(width, r.name.size());
  fmt::print("  {:<{}}  {:<9} {:>7} {:>7} {:>10}\n", options.by == "module" ? "module" : "op", width, "phase", "FLOP",
             "bytes", "least time");
  for (const TimeRow& r : rows)
    fmt::print("  {:<{}}  {:<9} {:>7} {:>7} {:>10}\n", r.name, width, r.phase,
               format_decimal(static_cast<double>(r.flop)), format_decimal(static_cast<double>(r.bytes)),
               r.least_time.value_or(0) > 0 ? memory::format_time(least_nanoseconds(r)) : "");
  if (!whole.least_time) fmt::print("{}", ceilings_note);
}

}  // namespace

int times(const std::string& path, const TimesOptions& options) {
  memory::Log log = read_recording(path);
  if (!options.ceilings.empty()) log.ceilings = memory::read_ceilings(options.ceilings);
  fmt::print("{}", headline(log, path));
  if (is_prediction(log)) {
    print_predicted(log, options);
    return status_of(log);
  }
  const memory::StepTime shown = chosen(complete_steps(log), options.step);
  const std::vector<TimeRow> rows = sorted_rows(log, shown, options.by, options.sort);
  fmt::print("time of the host{}{}\n\n", shown.device ? ", and of the device" : "",
             options.step ? "" : ", mean of these steps");
  print_table(rows, shown, options.by, options.rows);
  fmt::print("{}", work_notes(shown));
  return status_of(log);
}

int kernels(const std::string& path, std::uint32_t step, std::size_t most) {
  const memory::Log log = read_recording(path);
  fmt::print("{}", headline(log, path));
  const std::vector<memory::StepTime> timed = timed_steps(log, step);
  print_kernels(kernel_rows(log, timed), timed.size(), most);
  return status_of(log);
}

}  // namespace bytetape::examples
