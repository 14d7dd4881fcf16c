// Times the training workloads of shared/bench; one JSON line each, as torch_peer.py prints them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/harness.h"
#include "bench/training.h"

namespace {

using namespace bytetape;

nlohmann::ordered_json measure(const bench::Workload& w) {
  manual_seed(0);
  memory::Allocator& allocator = memory::allocator(Device::cpu());
  bench::Training training(w);
  for (int i = 0; i < 3; ++i) training.step();
  const double one = bench::time(0, 1, [&] { training.step(); }).median;
  allocator.reset_peaks();
  const int burst = static_cast<int>(std::clamp(1e9 / one, 2.0, 50.0));
  const std::clock_t start = std::clock();
  int steps = 0;
  const bench::Timing t = bench::time(0, burst, [&] { training.step(), ++steps; });
  const double cpu_ms = static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC / steps;
  const memory::Statistics s = allocator.statistics();
  const double ms = t.median / 1e6;
  return {{"workload", w.name},
          {"mode", "eager"},
          {"device", "cpu"},
          {"precision", w.precision},
          {"batch", w.batch},
          {"ms_per_step", ms},
          {"ms_min", t.min / 1e6},
          {"ms_max", t.max / 1e6},
          {"cpu_ms_per_step", cpu_ms},  // of all threads, spinning ones too
          {"items_per_s", static_cast<double>(w.batch) / ms * 1e3},
          {"peak_allocated", s.allocated.peak},
          {"peak_reserved", s.reserved.peak},
          {"loss", training.step().item<float>()},
          {"threads", num_threads()},
          {"bytetape", BYTETAPE_VERSION}};
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times training workloads; one JSON line each."};
  int threads = 0;
  std::vector<std::string> names;
  app.add_option("--threads", threads, "CPU threads; default: all");
  app.add_option("workload", names, "names; default: all");
  CLI11_PARSE(app, argc, argv);
  return bench::run("workloads", [&] {
    if (threads) set_num_threads(threads);
    for (const std::string& name : names)
      check<ValueError>(std::any_of(bench::workloads().begin(), bench::workloads().end(),
                                    [&](const auto& w) { return w.name == name; }),
                        "unknown workload '", name, "'");
    for (const bench::Workload& w : bench::workloads())
      if (names.empty() || std::find(names.begin(), names.end(), w.name) != names.end())
        std::cout << measure(w).dump() << std::endl;
  });
}
