#include "examples/bytetape-memory/predict.h"

#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/layout.h>
#include <bytetape/core/memory/resimulate.h>
#include <bytetape/core/memory/snapshot_of.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "examples/bytetape-memory/recordings.h"
#include "examples/bytetape-memory/requests.h"

namespace bytetape::examples {
namespace {

using memory::format_bytes;

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

void print_failure(const memory::Log& log, const memory::Resimulated::Failure& f, std::size_t limit) {
  const memory::Event& e = f.request.event;
  const std::size_t cached = f.reserved - f.allocated, free = limit - f.allocated;
  fmt::print("\nit does not fit: {} requested by {} fail in {}\n", format_bytes(f.requested),
             requester(log, e.op, e.module), when(e.step, e.phase));
  fmt::print("at that point {} are held, {} are cached in pieces of at most {}, and {} of the limit are left\n",
             format_bytes(f.allocated), format_bytes(cached), format_bytes(f.largest_free),
             format_bytes(limit - f.reserved));
  if (f.requested <= free)
    fmt::print("fragmentation: {} are free, but not in one piece\n", format_bytes(free));
  else
    fmt::print("a true shortage: {} are missing\n", format_bytes(f.requested - free));
}

/// Whether the run made more requests than were recorded.
bool ended_early(const memory::Log& log, const memory::DeviceLog& device) {
  return !log.complete || std::any_of(device.records.begin(), device.records.end(), [](const memory::Record& r) {
    return r.event.kind == memory::EventKind::out_of_memory;
  });
}

/// Returns a limit in MiB that is enough if `limit` is not, by bisection. One MiB less is not enough.
std::size_t enough(const memory::Log& log, const memory::DeviceLog& device, const memory::MakePolicy& policy,
                   std::size_t limit) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const memory::Resimulated without = memory::resimulate(device, {policy});
  std::size_t low = limit / mib;
  std::size_t high = memory::snapshot_of(log, without.device).statistics.reserved.peak / mib + 1;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (memory::resimulate(device, {policy, middle * mib}).failure ? low : high) = middle;
  }
  return high;
}

void print_row(const char* name, std::size_t recorded, std::size_t predicted) {
  fmt::print("  {:<30} {:>10} {:>10}\n", name, format_bytes(recorded), format_bytes(predicted));
}

/// Prints the recorded and the predicted figures.
void print_table(const memory::Snapshot& a, const memory::Snapshot& b, bool is_cut) {
  const memory::ReservedPeak at_a = memory::reserved_peak(a.events), at_b = memory::reserved_peak(b.events);
  fmt::print("\n{:<32} {:>10} {:>10}\n", "", "recorded", is_cut ? "until failure" : "predicted");
  print_row("peak allocated", a.statistics.allocated.peak, b.statistics.allocated.peak);
  print_row("peak reserved", a.statistics.reserved.peak, b.statistics.reserved.peak);
  print_row("  requested", at_a.usage.requested, at_b.usage.requested);
  print_row("  rounding", at_a.usage.rounding, at_b.usage.rounding);
  print_row("  unused segments", at_a.usage.unused, at_b.usage.unused);
  print_row("  stranded between blocks", at_a.usage.stranded, at_b.usage.stranded);
  fmt::print("\nthe reserved peak is in {}\n", when(at_b.step, at_b.phase));
}

}  // namespace

int predict(const std::string& path, const std::string& device_name, const std::string& policy, std::uint64_t most) {
  const std::size_t limit = most ? most : no_limit;
  const memory::Log log = read_recording(path);
  const memory::DeviceLog& device = choose_device(log, device_name);
  using Mode = memory::AllocationMode;
  const memory::MakePolicy make_policy = memory::policy_of(policy == "direct" ? Mode::direct : Mode::caching);
  const memory::Resimulated predicted = memory::resimulate(device, {make_policy, limit});
  fmt::print("{}{}, through the {} policy, {}\n", headline(log, path), introduce(log, device), policy,
             limit == no_limit ? "without a limit" : "under a limit of " + format_bytes(limit));
  const memory::Snapshot after = memory::snapshot_of(log, predicted.device);
  if (predicted.failure) {
    print_failure(log, *predicted.failure, limit);
    fmt::print("a limit of {} MiB is enough{}\n", enough(log, device, make_policy, limit),
               ended_early(log, device) ? " for the recorded requests; the run made more" : "");
  }
  print_table(memory::snapshot_of(log, device), after, predicted.failure.has_value());
  if (predicted.failure) return 1;
  if (limit != no_limit)
    fmt::print("it fits: {} of the limit stay free\n", format_bytes(limit - after.statistics.reserved.peak));
  return status_of(log);
}

}  // namespace bytetape::examples
