// What the allocator reserves for the same requests as PyTorch's would, and the least that any could: a Markdown table.
#include <bytetape/bytetape.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/resimulate.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "bench/fragmentation/torch_policy.h"
#include "bench/fragmentation/traces.h"

namespace {

using namespace bytetape;
using memory::EventKind;

std::size_t peak_reserved(const memory::DeviceLog& d, const memory::MakePolicy& policy) {
  memory::Watermark reserved;
  for (const memory::Record& r : memory::resimulate(d, {.policy = policy}).device.records) {
    if (r.event.kind == EventKind::segment_alloc) reserved.add(r.event.bytes);
    if (r.event.kind == EventKind::segment_free) reserved.sub(r.event.bytes);
  }
  return reserved.peak;
}

/// The most that is held at once, each block rounded to 512 bytes.
std::size_t lower_bound(const memory::DeviceLog& d) {
  return peak_reserved(d, memory::policy_of(memory::Allocator::Mode::direct));
}

std::size_t our_peak(const memory::DeviceLog& d) {
  return peak_reserved(d, memory::policy_of(memory::Allocator::Mode::caching));
}

std::size_t torch_peak(const memory::DeviceLog& d) {
  return peak_reserved(d, [](memory::Upstream& u, memory::SegmentObserver o) {
    return std::make_unique<bench::TorchPolicy>(u, std::move(o));
  });
}

void print(const bench::Trace& t) {
  const auto& records = t.device.records;
  const auto requests = std::count_if(records.begin(), records.end(),
                                      [](const memory::Record& r) { return r.event.kind == EventKind::alloc; });
  const std::size_t least = lower_bound(t.device), ours = our_peak(t.device), theirs = torch_peak(t.device);
  const auto times = [&](std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(least); };
  fmt::print("| {} | {} | {} | {} ({:.3f}) | {} ({:.3f}) |\n", t.name, requests, memory::format_bytes(least),
             memory::format_bytes(ours), times(ours), memory::format_bytes(theirs), times(theirs));
}

/// Our peaks beside PyTorch's, over many traces.
class Count {
 public:
  void add(std::size_t least, std::size_t ours, std::size_t theirs) {
    ++(ours < theirs ? better_ : ours == theirs ? equal_ : worse_);
    const double ratio = static_cast<double>(ours) / static_cast<double>(theirs);
    best_ = std::min(best_, ratio);
    worst_ = std::max(worst_, ratio);
    ours_ += std::log(static_cast<double>(ours) / static_cast<double>(least));
    theirs_ += std::log(static_cast<double>(theirs) / static_cast<double>(least));
  }
  void print(const std::string& name) const {
    const int n = better_ + equal_ + worse_;
    fmt::print("| {} | {} | {} | {} | {} | {:.3f} to {:.3f} | {:.3f} | {:.3f} |\n", name, n, better_, equal_, worse_,
               best_, worst_, std::exp(ours_ / n), std::exp(theirs_ / n));
  }

 private:
  int better_ = 0, equal_ = 0, worse_ = 0;
  double best_ = 1, worst_ = 1, ours_ = 0, theirs_ = 0;  // the last two: sums of logarithms
};

void print_grid() {
  std::map<std::string, Count> programs;
  Count all;
  bench::each_of_grid([&](const bench::Trace& t) {
    const std::size_t least = lower_bound(t.device), ours = our_peak(t.device), theirs = torch_peak(t.device);
    for (Count* count : {&all, &programs[t.name]}) count->add(least, ours, theirs);
  });
  fmt::print("| programs | n | less | equal | more | ours / PyTorch's | bytetape | PyTorch |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, count] : programs) count.print(name);
  all.print("all");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Peak reserved bytes of the same requests: the lower bound, ours, PyTorch's", "fragmentation"};
  std::vector<std::string> logs;
  app.add_option("LOG", logs, "recordings to replay besides");
  bool grid = false;
  app.add_flag("--grid", grid,
               "instead: how often ours are less, equal and more, in 640 traces of the examples' models");
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
