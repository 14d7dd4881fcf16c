#include "examples/bytetape-memory/recordings.h"

#include <bytetape/core/error.h>
#include <bytetape/core/files/input.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/replay.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

namespace bytetape::examples {
namespace {

std::uint64_t last_time(const memory::Log& log) {
  std::uint64_t last = log.marks.empty() ? 0 : log.marks.back().time;
  for (const memory::DeviceLog* d : devices_of(log)) last = std::max(last, d->records.back().time);
  return last;
}

std::size_t most_held(const memory::DeviceLog& d) {
  memory::Replay replay;
  std::size_t most = 0;
  for (const memory::Record& r : d.records) {
    replay.apply(r.event);
    most = std::max(most, replay.allocated());
  }
  return most;
}

std::vector<std::string> names_but_for(const memory::Log& log, const memory::DeviceLog* chosen) {
  std::vector<std::string> names;
  for (const memory::DeviceLog* d : devices_of(log))
    if (d != chosen) names.push_back(d->name);
  return names;
}

}  // namespace

memory::Log read_recording(const std::string& path) {
  memory::Log log = memory::read_log(path);
  if (!log.damage.empty()) std::cerr << "bytetape-memory: " << log.damage << "; the rest was not read\n";
  return log;
}

int status_of(const memory::Log& log) { return log.damage.empty() ? 0 : 1; }

std::string headline(const memory::Log& log, const std::string& path) {
  std::size_t records = 0;
  for (const memory::DeviceLog& d : log.devices) records += d.records.size();
  const double ms = static_cast<double>(last_time(log)) / 1e6;
  const std::string time = ms < 1000 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.1f} s", ms / 1000);
  std::string text =
      fmt::format("{}, recorded in {}: {} records in {}\n", log.program.empty() ? "a program" : printable(log.program),
                  path, memory::format_exact(records), time);
  if (!log.damage.empty())
    text += "the recording is damaged after these records\n";
  else if (!log.complete)
    text += "the recording breaks off after these records: the program ended before it was finished\n";
  return text;
}

std::vector<const memory::DeviceLog*> devices_of(const memory::Log& log) {
  std::vector<const memory::DeviceLog*> devices;
  for (const memory::DeviceLog& d : log.devices)
    if (!d.records.empty()) devices.push_back(&d);
  return devices;
}

const memory::DeviceLog& choose_device(const memory::Log& log, const std::string& name) {
  const memory::DeviceLog* chosen = nullptr;
  std::size_t most = 0;
  for (const memory::DeviceLog* d : devices_of(log)) {
    if (!name.empty() && d->name != name) continue;
    const std::size_t held = most_held(*d);
    if (chosen && held <= most) continue;
    chosen = d;
    most = held;
  }
  const std::vector<std::string> all = names_but_for(log, nullptr);
  check<ValueError>(!all.empty(), "the recording has no events");
  check<ValueError>(chosen, "--device: no events of '", name, "' in the recording, only of ",
                    fmt::format("{}", fmt::join(all, ", ")));
  return *chosen;
}

std::string introduce(const memory::Log& log, const memory::DeviceLog& chosen) {
  const std::vector<std::string> others = names_but_for(log, &chosen);
  if (others.empty()) return chosen.name;
  return fmt::format("{} (other devices: {})", chosen.name, fmt::join(others, ", "));
}

}  // namespace bytetape::examples
