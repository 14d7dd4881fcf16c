// Prints a Markdown table of the bytes that our allocator and PyTorch's reserve for the same requests, and of the lower
// bound for any allocator.
#include <bytetape/bytetape.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/resimulate.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>

#include "bench/fragmentation/torch_policy.h"
#include "bench/fragmentation/traces.h"

namespace {

using namespace bytetape;
using memory::EventKind;

constexpr std::size_t no_limit = memory::PredictOptions{}.limit;

/// The result of a policy for a trace.
struct Reserved {
  std::size_t peak = 0;              // bytes
  std::size_t taken = 0, given = 0;  // segments taken from the system and given back
  bool is_enough = true;             // whether the limit is enough
};

Reserved reserved(const memory::DeviceLog& d, const memory::MakePolicy& policy, std::size_t limit) {
  const memory::Resimulated r = memory::resimulate(d, {.policy = policy, .limit = limit});
  memory::Watermark bytes;
  Reserved all{.is_enough = !r.failure};
  for (const memory::Record& record : r.device.records) {
    if (record.event.kind == EventKind::segment_alloc) bytes.add(record.event.bytes), ++all.taken;
    if (record.event.kind == EventKind::segment_free) bytes.sub(record.event.bytes), ++all.given;
  }
  all.peak = bytes.peak;
  return all;
}

/// Returns the peak of the held bytes, with each block rounded up to 512 bytes.
std::size_t lower_bound(const memory::DeviceLog& d) {
  return reserved(d, memory::policy_of(memory::AllocationMode::direct), no_limit).peak;
}

Reserved ours(const memory::DeviceLog& d, std::size_t limit = no_limit) {
  return reserved(d, memory::policy_of(memory::AllocationMode::caching), limit);
}

Reserved theirs(const memory::DeviceLog& d, std::size_t limit = no_limit) {
  const auto make = [](memory::Upstream& u, memory::SegmentObserver o) {
    return std::make_unique<bench::TorchPolicy>(u, std::move(o));
  };
  return reserved(d, make, limit);
}

void print(const bench::Trace& t) {
  const auto& records = t.device.records;
  const auto requests = std::count_if(records.begin(), records.end(),
                                      [](const memory::Record& r) { return r.event.kind == EventKind::alloc; });
  const std::size_t least = lower_bound(t.device), our = ours(t.device).peak, their = theirs(t.device).peak;
  const auto times = [&](std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(least); };
  fmt::print("| {} | {} | {} | {} ({:.3f}) | {} ({:.3f}) |\n", t.name, requests, memory::format_bytes(least),
             memory::format_bytes(our), times(our), memory::format_bytes(their), times(their));
}

/// The results of a trace without a limit, and the number of limits, from 1 to 1.5 times the lower bound, that are
/// enough.
struct Outcome {
  std::size_t least = 0;
  Reserved ours, theirs;
  int enough_for_ours = 0, enough_for_theirs = 0;
};
constexpr std::array limits{1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5};

Outcome outcome_of(const memory::DeviceLog& d) {
  Outcome o{lower_bound(d), ours(d), theirs(d)};
  for (const double times : limits) {
    const auto limit = static_cast<std::size_t>(times * static_cast<double>(o.least));
    o.enough_for_ours += ours(d, limit).is_enough;
    o.enough_for_theirs += theirs(d, limit).is_enough;
  }
  return o;
}

/// Sums of our results and PyTorch's over many traces.
class Count {
 public:
  void add(const Outcome& o) {
    ++(o.ours.peak < o.theirs.peak ? less_ : o.ours.peak == o.theirs.peak ? equal_ : more_);
    const double ratio = static_cast<double>(o.ours.peak) / static_cast<double>(o.theirs.peak);
    best_ = std::min(best_, ratio);
    worst_ = std::max(worst_, ratio);
    ours_.add(o.ours, o.least, o.enough_for_ours);
    theirs_.add(o.theirs, o.least, o.enough_for_theirs);
  }
  void print_peaks(const std::string& name) const {
    const int n = count();
    fmt::print("| {} | {} | {} | {} | {} | {:.3f} to {:.3f} | {:.3f} | {:.3f} |\n", name, n, less_, equal_, more_,
               best_, worst_, std::exp(ours_.logarithms / n), std::exp(theirs_.logarithms / n));
  }
  void print_calls(const std::string& name) const {
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name, ours_.taken, ours_.given, theirs_.taken,
               theirs_.given, count() * static_cast<int>(limits.size()), ours_.enough, theirs_.enough);
  }

 private:
  struct Sums {
    double logarithms = 0;  // sum of log(peak / lower bound)
    std::size_t taken = 0, given = 0;
    int enough = 0;
    void add(const Reserved& r, std::size_t least, int limits_enough) {
      logarithms += std::log(static_cast<double>(r.peak) / static_cast<double>(least));
      taken += r.taken, given += r.given, enough += limits_enough;
    }
  };
  int count() const { return less_ + equal_ + more_; }

  int less_ = 0, equal_ = 0, more_ = 0;
  double best_ = 1, worst_ = 1;
  Sums ours_, theirs_;
};

void print_grid() {
  std::map<std::string, Count> programs;
  Count all;
  bench::each_of_grid([&](const bench::Trace& t) {
    const Outcome o = outcome_of(t.device);
    for (Count* count : {&all, &programs[t.name]}) count->add(o);
  });
  const auto print_all = [&](void (Count::*print)(const std::string&) const) {
    for (const auto& [name, count] : programs) (count.*print)(name);
    (all.*print)("all");
  };
  fmt::print("| programs | n | less | equal | more | ours / PyTorch's | bytetape | PyTorch |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  print_all(&Count::print_peaks);
  fmt::print("\n| programs | taken | given back | PyTorch: taken | given back | limits | enough | PyTorch: enough |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  print_all(&Count::print_calls);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Peak reserved bytes of the same requests: the lower bound, ours, PyTorch's", "fragmentation"};
  std::vector<std::string> logs;
  app.add_option("LOG", logs, "recordings to replay too");
  bool grid = false;
  app.add_flag(
      "--grid", grid,
      "count instead, in 640 traces of the examples' models, how often our peak is less than, equal to and more than "
      "PyTorch's, how many segments are taken and given back, and how many limits up to 1.5 times the bound are "
      "enough");
  CLI11_PARSE(app, argc, argv);
  try {
    if (grid) {
      print_grid();
      return 0;
    }
    fmt::print("| requests of | n | lower bound | bytetape | PyTorch |\n|---|---|---|---|---|\n");
    for (const auto& traces : {bench::model_traces(), bench::synthetic_traces()})
      for (const bench::Trace& t : traces) print(t);
    for (const std::string& path : logs)
      for (const memory::DeviceLog& d : memory::read_log(path).devices)
        if (!d.records.empty()) print({path + " " + d.name, d});
  } catch (const std::exception& e) {
    std::cerr << "fragmentation: " << e.what() << '\n';
    return 1;
  }
}
