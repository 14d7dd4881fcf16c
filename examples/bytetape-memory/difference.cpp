#include "examples/bytetape-memory/difference.h"

#include <bytetape/core/error.h>
#include <bytetape/core/memory/compare.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/holders.h>
#include <bytetape/core/memory/snapshot_of.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "examples/bytetape-memory/paired_rows.h"
#include "examples/bytetape-memory/recordings.h"
#include "examples/bytetape-memory/time_rows.h"
#include "examples/bytetape-memory/work_columns.h"

namespace bytetape::examples {
namespace {

constexpr std::size_t modules_shown = 12;

struct Sum {
  std::string name;
  std::size_t a = 0, b = 0;
  std::size_t change() const { return a > b ? a - b : b - a; }
};

void print(const Sum& s) {
  // fmt pads by characters, which matters because "−" and "·" have several bytes
  fmt::print("  {:<32} {:>10} {:>10} {:>11}\n", s.name, memory::format_bytes(s.a), memory::format_bytes(s.b),
             format_change(s.a, s.b, memory::format_bytes));
}

std::vector<Sum> totals(const memory::Statistics& a, const memory::Statistics& b) {
  return {{"peak allocated", a.allocated.peak, b.allocated.peak},
          {"peak reserved", a.reserved.peak, b.reserved.peak},
          {"held at the end", a.allocated.current, b.allocated.current}};
}

std::vector<Sum> roles(const memory::Statistics& a, const memory::Statistics& b) {
  std::vector<Sum> sums;
  for (std::size_t r = 0; r < memory::role_count; ++r)
    if (const Sum s{to_string(static_cast<memory::Role>(r)), a.by_role[r].peak, b.by_role[r].peak}; s.a || s.b)
      sums.push_back(s);
  return sums;
}

/// The modules whose bytes differ, the largest change first.
std::vector<Sum> modules(const std::vector<memory::RoleBytes>& a, const std::vector<memory::RoleBytes>& b) {
  std::vector<Sum> sums;
  for (memory::NameId id = 0; id < std::max(a.size(), b.size()); ++id) {
    const Sum s{memory::display_name(id), id < a.size() ? memory::total(a[id]) : 0,
                id < b.size() ? memory::total(b[id]) : 0};
    if (s.change()) sums.push_back(s);
  }
  std::stable_sort(sums.begin(), sums.end(), [](const Sum& x, const Sum& y) { return x.change() > y.change(); });
  return sums;
}

void print(const char* title, const std::vector<Sum>& sums, std::size_t most) {
  if (sums.empty()) return;
  fmt::print("\n{:<34} {:>10} {:>10} {:>11}\n", title, "A", "B", "B − A");
  for (std::size_t i = 0; i < std::min(most, sums.size()); ++i) print(sums[i]);
  if (sums.size() > most) fmt::print("  and {} more\n", sums.size() - most);
}

/// Prints the differences. Returns true if the events differ in more than names.
bool compare(const memory::Snapshot& a, const memory::Snapshot& b) {
  const std::string first = memory::first_difference(a.events, b.events, memory::Names::ignored);
  const std::string named = memory::first_difference(a.events, b.events);
  fmt::print("\n{}: ", a.name == b.name ? a.name : a.name + " and " + b.name);
  if (first.empty())
    fmt::print("the same {} events\n", memory::format_exact(a.events.size()));
  else
    fmt::print("apart from names and saved references, the first difference is {}\n", first);
  if (named != first) fmt::print("the first difference in names is {}\n", named);
  print("", totals(a.statistics, b.statistics), modules_shown);
  print("peaks by role", roles(a.statistics, b.statistics), modules_shown);
  print("held at the peak, where it differs", modules(a.by_module_at_peak, b.by_module_at_peak), modules_shown);
  return !first.empty();
}

using Devices = std::vector<const memory::DeviceLog*>;
struct Pair {
  const memory::DeviceLog *a, *b;  // null: only the other recording has it
};

/// Pairs devices by name, then the rest in order, so that a prediction's "meta" is paired with the run's "cpu".
std::vector<Pair> paired(Devices as, Devices bs) {
  std::vector<Pair> pairs;
  const auto pair_with = [&](const memory::DeviceLog*& a, auto is_its) {
    const auto b = a ? std::find_if(bs.begin(), bs.end(), is_its) : bs.end();
    if (b == bs.end()) return;
    pairs.push_back({std::exchange(a, nullptr), *b});
    bs.erase(b);
  };
  for (auto& a : as) pair_with(a, [&](const memory::DeviceLog* b) { return b->name == a->name; });
  for (auto& a : as) pair_with(a, [](const memory::DeviceLog*) { return true; });
  for (const auto* a : as)
    if (a) pairs.push_back({a, nullptr});
  for (const auto* b : bs) pairs.push_back({nullptr, b});
  return pairs;
}

/// Returns the pairs with a device of that name in either recording; all pairs if it is "".
std::vector<Pair> chosen(std::vector<Pair> pairs, const std::string& device) {
  if (device.empty()) return pairs;
  std::set<std::string> names;
  for (const Pair& p : pairs)
    for (const memory::DeviceLog* d : {p.a, p.b})
      if (d) names.insert(d->name);
  check<ValueError>(names.contains(device), "--device: no events of '", device, "' in the recordings, only of ",
                    fmt::format("{}", fmt::join(names, ", ")));
  std::erase_if(pairs, [&](const Pair& p) { return !(p.a && p.a->name == device) && !(p.b && p.b->name == device); });
  return pairs;
}

void print_time(const Sum& s) {
  fmt::print("  {:<32} {:>10} {:>10} {:>11}\n", s.name, memory::format_time(s.a), memory::format_time(s.b),
             format_change(s.a, s.b, memory::format_time));
}

/// Prints the work of a step in both runs.
void print_work(const memory::StepTime& a, const memory::StepTime& b) {
  const auto print = [&](const char* name, std::uint64_t memory::OpTime::*amount) {
    const auto sum = [&](const memory::StepTime& step) {
      double all = 0;
      for (const memory::OpTime& r : step.rows) all += static_cast<double>(r.*amount);
      return all;
    };
    fmt::print("  {:<32} {:>10} {:>10} {:>11}\n", name, format_decimal(sum(a)), format_decimal(sum(b)),
               format_change(sum(a), sum(b), format_decimal));
  };
  print("floating-point operations", &memory::OpTime::flop);
  print("bytes moved", &memory::OpTime::bytes);
}

/// Prints the mean time of a step, and of the ops that differ most, if both runs have times. These are times of the
/// device if both have them, else of the host.
void compare_times(const memory::Log& a, const memory::Log& b) {
  const std::vector<memory::StepTime> as = memory::step_times(a), bs = memory::step_times(b);
  if (as.empty() || bs.empty()) return;
  const memory::StepTime mean_a = memory::mean_of(later_steps(as)), mean_b = memory::mean_of(later_steps(bs));
  const CommonClock clock(mean_a, mean_b);
  std::vector<Sum> rows = {{clock.is_device() ? "all, with gaps" : "all", clock.of(mean_a), clock.of(mean_b)}};
  for (const PairedRow& r : paired_rows(time_rows(a, mean_a, "op"), time_rows(b, mean_b, "op"), clock))
    rows.push_back({r.a.name + " " + r.a.phase, clock.of(r.a), clock.of(r.b)});
  fmt::print("\n{:<34} {:>10} {:>10} {:>11}\n",
             clock.is_device() ? "time of the device, mean of a step" : "time of the host, mean of a step", "A", "B",
             "B − A");
  for (std::size_t i = 0; i < std::min(modules_shown, rows.size()); ++i) print_time(rows[i]);
  if (mean_a.is_counted && mean_b.is_counted) print_work(mean_a, mean_b);
}

}  // namespace

int difference(const std::string& path_a, const std::string& path_b, const std::string& device) {
  const memory::Log a = read_recording(path_a), b = read_recording(path_b);
  fmt::print("A: {}B: {}", headline(a, path_a), headline(b, path_b));
  bool differ = false;
  for (const Pair& p : chosen(paired(devices_of(a), devices_of(b)), device)) {
    if (p.a && p.b) {
      differ |= compare(memory::snapshot_of(a, *p.a), memory::snapshot_of(b, *p.b));
      continue;
    }
    fmt::print("\n{}: only {} has events of this device\n", (p.a ? p.a : p.b)->name, p.a ? "A" : "B");
    differ = true;
  }
  compare_times(a, b);
  if (status_of(a) || status_of(b)) return 2;
  return differ ? 1 : 0;
}

}  // namespace bytetape::examples
