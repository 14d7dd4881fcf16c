// A tour through the memory of training. Each figure is predicted, then measured. See docs/memory.md, "The tour".
#include <bytetape/core/memory/format.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "examples/memory_tour/page.h"

using namespace bytetape;
using namespace bytetape::examples;

namespace {

struct Options {
  std::string device = "cpu", report, pytorch;
  int stop = 0;  // 0: all
};

/// The stops in the order of the tour.
constexpr Stop (*stops[])() = {
    tensor_stop,     rounding_stop,   dtype_stop,      linear_stop,           saved_stop,
    sequential_stop, layer_norm_stop, optimizer_stop,  workspace_stop,        recurrent_stop,
    attention_stop,  batch_norm_stop, checkpoint_stop, step_in_backward_stop, saved_tensor_hooks_stop};

/// Counts of what the tour measured, and the differences from what was expected or predicted.
struct Seen {
  std::size_t programs = 0, readings = 0, events = 0;
  std::vector<std::string> differences;
};

void visit(const Stop& stop, int number, const PyTorchTour& pytorch, Seen& seen) {
  std::vector<Measurement> found;
  for (const Part& part : stop.parts) {
    const Program named = [&](Watch& at) {
      const memory::Scope scope(fmt::format("{} {}", number, stop.title));  // the module's name in a report
      part.shown.run(at);
    };
    found.push_back(measure(named, part.look.is_timed));
    found.back().pytorch = pytorch.readings(number, static_cast<int>(found.size()));
    ++seen.programs;
    seen.readings += found.back().levels.size();
    seen.events += found.back().events.size();
    for (const std::string& difference : differences(part, found.back()))
      seen.differences.push_back(fmt::format("stop {}, {}: {}", number, stop.title, difference));
  }
  print(stop, number, found);
}

Seen walk(int only, const PyTorchTour& pytorch) {
  Seen seen;
  int number = 0;
  for (const auto make_stop : stops)
    if (++number == only || only == 0) visit(make_stop(), number, pytorch, seen);
  return seen;
}

/// Returns the exit status.
int run(const Options& o) {
  const DefaultDevice here(Device::parse(o.device));
  set_num_threads(2);  // workspaces on the CPU depend on it
  std::optional<memory::Recording> recording;
  if (!o.report.empty()) {
    check<ValueError>(o.report.ends_with(".html"), "--report: expected FILE.html, got '", o.report, "'");
    check<Error>(memory::can_write_reports(),
                 "this build has no d3, which HTML reports need: install the package node-d3 and build again");
    recording.emplace(std::filesystem::path(o.report).replace_extension(".memlog").string(), "memory_tour");
  }
  PyTorchTour pytorch;
  if (!o.pytorch.empty()) {
    pytorch = read_pytorch_tour(o.pytorch);
    fmt::print("\n");
    print_words(
        fmt::format("The column PyTorch: the bytes that PyTorch {} allocates on {}, with cuBLAS and cuDNN workspaces.",
                    pytorch.version, pytorch.device));
  }
  const Seen seen = walk(o.stop, pytorch);
  if (recording) {
    recording->finish();
    memory::write_report(memory::read_log(recording->path()), o.report);
    fmt::print("\nmemory report: {}\n", o.report);
  }
  std::fflush(stdout);
  for (const std::string& difference : seen.differences) std::cerr << "memory_tour: " << difference << '\n';
  if (!seen.differences.empty()) return 1;
  if (o.stop) return 0;
  fmt::print("\n");
  print_words(
      fmt::format("Can all of this be predicted? All {} programs were predicted before they ran: {} readings of "
                  "allocated bytes, reserved bytes and bytes by role, and {} events. All were exact.",
                  seen.programs, memory::format_exact(seen.readings), memory::format_exact(seen.events)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  Options o;
  CLI::App app{"A tour through the memory of training, with predictions and measurements.", "memory_tour"};
  app.option_defaults()->always_capture_default();
  app.add_option("--device", o.device, "cpu or cuda; meta and meta:cuda simulate them");
  app.add_option("--stop", o.stop, "show only this stop; 0: all")
      ->check(CLI::Range(0, static_cast<int>(std::size(stops))));
  app.add_option("--pytorch", o.pytorch,
                 "show PyTorch's figures too, from a file that examples/memory_tour/pytorch.py wrote");
  app.add_option("--memory-report,--report", o.report,
                 "write a memory report of the tour to this file, FILE.html, for a browser");
  try {
    app.parse(argc, argv);
    return run(o);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : 2; } catch (const std::exception& e) {
    std::cerr << "memory_tour: " << e.what() << '\n';
    return 1;
  }
}
