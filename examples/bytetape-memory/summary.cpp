#include "examples/bytetape-memory/summary.h"

#include <bytetape/core/memory/advice.h>
#include <bytetape/core/memory/allocator/verdict.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/layout.h>
#include <bytetape/core/memory/prediction/failed_requests.h>
#include <bytetape/core/memory/snapshot_of.h>
#include <bytetape/core/memory/summary.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <string>
#include <vector>

#include "examples/bytetape-memory/blocks.h"
#include "examples/bytetape-memory/recordings.h"
#include "examples/bytetape-memory/requests.h"
#include "examples/bytetape-memory/sparkline.h"
#include "examples/bytetape-memory/timelines.h"

namespace bytetape::examples {
namespace {

using memory::format_bytes;

constexpr std::size_t widest = 100, blocks_shown = 10;

/// Prints the request that ended the run out of memory, with the figures of the report's banner.
void print_failure(const memory::Log& log, const memory::DeviceLog& device) {
  if (!memory::ended_out_of_memory(log, device)) return;
  const memory::FailedRequest failed = memory::failed_requests(device).back();
  const memory::Shortage& s = failed.shortage;
  const memory::Record& r = device.records[failed.record];
  fmt::print("\nout of memory on {}: {} requested by {}, in {}\n{}\n", device.name, format_bytes(s.requested),
             requester(log, r.by_op, r.by_module), when(s.step, s.phase), memory::verdict(s));
  fmt::print("allocated {}, free in pieces {}, ", format_bytes(s.statistics.allocated.current),
             format_bytes(s.cached()));
  if (s.limit != std::numeric_limits<std::size_t>::max())
    fmt::print("not reserved {}, limit {}, ", format_bytes(s.unreserved), format_bytes(s.limit));
  fmt::print("missing {}, the largest that fits {}\n", format_bytes(s.missing()), format_bytes(s.fits()));
}

void print_device(const memory::Log& log, const memory::DeviceLog& device) {
  const memory::Snapshot s = memory::snapshot_of(log, device);
  fmt::print("\n{}\n{}\n", device.name, timelines(device, terminal_width(widest)));
  fmt::print("{}\n", memory::summarize(s));
  const memory::Usage u = memory::reserved_peak(s.events).usage;
  fmt::print("peak of {} reserved: {} requested, {} rounding, {} unused segments, {} stranded between blocks\n\n",
             format_bytes(u.reserved()), format_bytes(u.requested), format_bytes(u.rounding), format_bytes(u.unused),
             format_bytes(u.stranded));
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
  for (const memory::DeviceLog* device : devices_of(log)) print_failure(log, *device);
  for (const memory::DeviceLog* device : devices_of(log)) print_device(log, *device);
  const std::vector<std::string> advice = memory::advice_texts(log);
  if (!advice.empty()) fmt::print("\nadvice\n");
  for (const std::string& text : advice) print_advice(text);
  return status_of(log);
}

}  // namespace bytetape::examples
