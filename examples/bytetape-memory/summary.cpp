#include "examples/bytetape-memory/summary.h"

#include <bytetape/core/memory/advice.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/layout.h>
#include <bytetape/core/memory/snapshot_of.h>
#include <bytetape/core/memory/summary.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "examples/bytetape-memory/blocks.h"
#include "examples/bytetape-memory/recordings.h"
#include "examples/bytetape-memory/sparkline.h"
#include "examples/bytetape-memory/timelines.h"

namespace bytetape::examples {
namespace {

constexpr std::size_t widest = 100, blocks_shown = 10;

void print_device(const memory::Log& log, const memory::DeviceLog& device) {
  const memory::Snapshot s = memory::snapshot_of(log, device);
  fmt::print("\n{}\n{}\n", device.name, timelines(device, terminal_width(widest)));
  fmt::print("{}\n", memory::summarize(s));
  const memory::Usage u = memory::reserved_peak(s.events).usage;
  fmt::print("peak of {} reserved: {} requested, {} rounding, {} unused segments, {} stranded between blocks\n\n",
             memory::format_bytes(u.reserved()), memory::format_bytes(u.requested), memory::format_bytes(u.rounding),
             memory::format_bytes(u.unused), memory::format_bytes(u.stranded));
  fmt::print("{}", largest_blocks(log, device, blocks_shown));
}

/// Prints a sentence, and its line of code indented.
void print_advice(const std::string& text) {
  const std::size_t end = text.find('\n');
  fmt::print("  {}\n", text.substr(0, end));
  if (end != text.npos) fmt::print("      {}\n", text.substr(end + 1));
}

}  // namespace

int summary(const std::string& path) {
  const memory::Log log = read_recording(path);
  fmt::print("{}", headline(log, path));
  for (const memory::DeviceLog* device : devices_of(log)) print_device(log, *device);
  const std::vector<std::string> advice = memory::advice_texts(log);
  if (!advice.empty()) fmt::print("\nadvice\n");
  for (const std::string& text : advice) print_advice(text);
  return status_of(log);
}

}  // namespace bytetape::examples
