#include "examples/bytetape-memory/beside.h"

#include <bytetape/core/error.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/times.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/bytetape-memory/paired_rows.h"
#include "examples/bytetape-memory/recordings.h"
#include "examples/bytetape-memory/row_order.h"
#include "examples/bytetape-memory/time_rows.h"

namespace bytetape::examples {
namespace {

/// A line of the table. Its columns of times are those of the first step, of the second one, and the change.
struct Line {
  std::string name, phase, calls, a, b, change;
};

Line line_of(const PairedRow& r, const std::string& calls, std::uint64_t a, std::uint64_t b) {
  return {r.a.name,
          r.a.phase,
          calls,
          a ? memory::format_time(a) : "",
          b ? memory::format_time(b) : "",
          format_change(a, b, memory::format_time)};
}

/// "12", or "12 → 14" if the steps differ.
std::string calls_of(const PairedRow& r) {
  if (r.a.calls != r.b.calls) return memory::format_exact(r.a.calls) + " → " + memory::format_exact(r.b.calls);
  return r.a.calls ? memory::format_exact(r.a.calls) : "";
}

/// Sorts by a column of the first step. `time` is the time that the table shows.
void sort_pairs(std::vector<PairedRow>& rows, const std::string& column, const CommonClock& clock) {
  check_column(column, clock.is_device() ? std::vector<std::string>{"name", "phase", "calls", "time", "device"}
                                         : std::vector<std::string>{"name", "phase", "calls", "time"});
  if (column.empty()) return;
  const std::string by = column == "time" && clock.is_device() ? "device" : column;
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const PairedRow& x, const PairedRow& y) { return comes_before(x.a, y.a, by); });
}

/// The lines of the first `most` rows, of all others, of gaps on the device, and of the whole steps.
std::vector<Line> lines_of(const std::vector<PairedRow>& rows, const memory::StepTime& a, const memory::StepTime& b,
                           std::size_t most) {
  const CommonClock clock(a, b);
  const std::size_t shown = std::min(most, rows.size());
  PairedRow whole{{"a step", ""}, {}}, rest{{fmt::format("{} more", rows.size() - shown), ""}, {}};
  const PairedRow idle{{"device idle", ""}, {}};
  std::vector<Line> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PairedRow& r = rows[i];
    whole.add(r);
    if (i < shown)
      lines.push_back(line_of(r, calls_of(r), clock.of(r.a), clock.of(r.b)));
    else
      rest.add(r);
  }
  if (shown < rows.size()) lines.push_back(line_of(rest, "", clock.of(rest.a), clock.of(rest.b)));
  if (clock.is_device() && (a.device->idle() || b.device->idle()))
    lines.push_back(line_of(idle, "", a.device->idle(), b.device->idle()));
  lines.push_back(line_of(whole, calls_of(whole), clock.of(a), clock.of(b)));
  return lines;
}

/// The number of characters of a UTF-8 text. fmt pads by them: "→" and "−" have three bytes.
std::size_t characters_of(const std::string& text) {
  const auto is_first = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_first));
}

void print_lines(const std::vector<Line>& lines) {
  const auto width = [&](std::string Line::*column, std::size_t least) {
    for (const Line& l : lines) least = std::max(least, characters_of(l.*column));
    return least;
  };
  const std::size_t name = width(&Line::name, 12), calls = width(&Line::calls, 8), a = width(&Line::a, 9),
                    b = width(&Line::b, 9), change = width(&Line::change, 10);
  for (const Line& l : lines)
    fmt::print("  {:<{}}  {:<9} {:>{}} {:>{}} {:>{}} {:>{}}\n", l.name, name, l.phase, l.calls, calls, l.a, a, l.b, b,
               l.change, change);
}

/// Says which steps these are, and whose time is shown.
void print_heading(const memory::StepTime& a, const memory::StepTime& b, const CommonClock& clock) {
  const bool has_one = a.device.has_value() != b.device.has_value();
  fmt::print("\nstep {} beside step {}: time of the {}{}\n\n", a.step, b.step, clock.is_device() ? "device" : "host",
             has_one ? fmt::format(", because step {} has no device times", a.device ? b.step : a.step) : "");
}

}  // namespace

int beside(const std::string& path, const TimesOptions& options) {
  const memory::Log log = read_recording(path);
  fmt::print("{}", headline(log, path));
  check<ValueError>(!is_prediction(log), "times: --beside compares times, and a prediction has none: record a run");
  const std::vector<memory::StepTime> steps = complete_steps(log);
  const memory::StepTime &a = step_numbered(steps, options.step), &b = step_numbered(steps, options.beside);
  const CommonClock clock(a, b);
  std::vector<PairedRow> rows = paired_rows(time_rows(log, a, options.by), time_rows(log, b, options.by), clock);
  sort_pairs(rows, options.sort, clock);
  print_heading(a, b, clock);
  std::vector<Line> lines = lines_of(rows, a, b, options.rows);
  lines.insert(lines.begin(),
               {options.by == "module" ? "module" : "op", "phase", "calls", fmt::format("step {}", a.step),
                fmt::format("step {}", b.step), fmt::format("{} − {}", b.step, a.step)});
  print_lines(lines);
  return status_of(log);
}

}  // namespace bytetape::examples
