#include "examples/bytetape-memory/export.h"

#include <bytetape/core/error.h>
#include <bytetape/core/memory/export.h>
#include <bytetape/core/memory/snapshot_of.h>
#include <bytetape/core/memory/timeline.h>
#include <bytetape/core/memory/times.h>
#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <system_error>

#include "examples/bytetape-memory/recordings.h"

namespace bytetape::examples {

namespace {

/// Leaves only one device in a recording, and the work that was counted on it.
void keep_device(memory::Log& log, const memory::DeviceLog& chosen) {
  const auto index = static_cast<std::uint32_t>(&chosen - log.devices.data());
  std::erase_if(log.counted_steps, [&](const memory::CountedStep& s) { return s.step_device != index; });
  std::erase_if(log.work_counts, [&](const memory::WorkCount& w) { return w.device != index; });
  for (memory::CountedStep& s : log.counted_steps) s.step_device = 0;
  for (memory::WorkCount& w : log.work_counts) w.device = 0;
  log.devices = {memory::DeviceLog(chosen)};
}

}  // namespace

int write_export(const std::string& path, const std::string& format, const std::string& device,
                 const std::string& out) {
  std::error_code none;
  check<ValueError>(!std::filesystem::equivalent(path, out, none), "'", out,
                    "' is the recording itself: name another file");
  memory::Log log = read_recording(path);
  std::cout << headline(log, path);
  check<ValueError>(device.empty() || format != "times", "--device: times are of all devices");
  if (!device.empty() || format == "json") {
    const memory::DeviceLog& chosen = choose_device(log, device);
    if (format == "json") std::cout << "device: " << introduce(log, chosen) << '\n';
    keep_device(log, chosen);
  }
  if (format == "times")
    check<ValueError>(!memory::step_times(log).empty(), path,
                      ": expected times of a complete step; record a run of one or more, not a prediction");
  write_file(out, "the export", [&](std::ostream& to) {
    if (format == "chrome") return memory::write_chrome_trace(log, to);
    if (format == "torch") return memory::write_torch_snapshot(log, to);
    if (format == "csv") return memory::write_csv(log, to);
    if (format == "times") return memory::write_times_csv(log, to);
    memory::write_timeline(memory::snapshot_of(log, log.devices.front()), to);
  });
  std::cout << "written to " << out << '\n';
  return status_of(log);
}

}  // namespace bytetape::examples
