#include "examples/report.h"

#include <bytetape/core/memory/format.h>
#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "examples/outputs.h"

namespace bytetape::examples {
namespace {

/// "2 threads", "NVIDIA H100 80GB HBM3".
std::string workers(Device device) {
  return device.type == DeviceType::cuda ? cuda::get_device_name(device.index)
                                         : fmt::format("{} thread{}", num_threads(), num_threads() == 1 ? "" : "s");
}

}  // namespace

void print_results(const Run& run, const TrainingResult& r) {
  const Device device = default_device();
  const auto row = [](const std::string& name, const std::string& value) { fmt::print("  {:<18} {}\n", name, value); };
  fmt::print("\n");
  row("dataset", run.dataset);
  row("model", run.options.model);
  const auto& [epochs, batch] = r.reached;
  const std::string steps = batch ? fmt::format(" and {} steps", batch) : "";
  const std::string when = fmt::format("{} epoch{}{}", epochs, epochs == 1 ? "" : "s", steps);
  if (r.is_finished())
    row("test " + std::string(run.objective.name),
        fmt::format("{} after {}", run.objective.text(*r.test_figure), when));
  else
    row("interrupted", "after " + when);
  row("training time", fmt::format("{:.2f} s, {} {}, {}", r.train_seconds,
                                   memory::format_exact(static_cast<std::size_t>(std::llround(r.rate))), run.unit.rate,
                                   workers(device)));
  row("first to last step", fmt::format("{:.2f} s, with the tests between epochs", r.first_to_last_seconds));
  fmt::print("\n{}", memory::summarize(memory::snapshot(device)));
  std::fflush(stdout);  // the results are printed even if a file cannot be written
}

void write_json(const Run& run, const std::optional<TrainingResult>& measured, const memory::Statistics& memory) {
  const Options& o = run.options;
  const auto number = [&](double TrainingResult::*field) {
    return measured ? nlohmann::json(*measured.*field) : nullptr;
  };
  const auto figure = measured ? measured->test_figure : std::nullopt;
  const nlohmann::ordered_json out{
      {"example", run.example},
      {"model", o.model},
      {"dataset", run.dataset},
      {"device", o.device},
      {"threads", num_threads()},
      {"seed", o.seed},
      {"epochs", measured ? measured->reached.epoch : o.epochs},
      {"test_" + std::string(run.objective.name), figure ? nlohmann::json(*figure) : nullptr},
      {"train_seconds", number(&TrainingResult::train_seconds)},
      {run.unit.json_rate, number(&TrainingResult::rate)},
      {"peak_allocated", memory.allocated.peak},
      {"peak_reserved", memory.reserved.peak}};
  write_file(o.json, json_name, [&](std::ostream& file) { file << out.dump(2) << '\n'; });
}

void print_files(const Options& o, bool is_interrupted) {
  const auto row = [](const char* what, const std::string& path) {
    if (!path.empty()) fmt::print("{}: {}\n", what, path);
  };
  fmt::print("\n");
  row(o.reports_page() ? "memory report" : "memory timeline", o.memory_report);
  row("memory log", o.recorded_to());
  if (!is_interrupted) {
    row("checkpoint", o.checkpoint);
  } else if (o.checkpoint.empty()) {
    fmt::print("the training state is lost: with --checkpoint FILE it is saved\n");
  } else {
    fmt::print("to go on, run the same command with --resume {}\n", o.checkpoint);
  }
}

}  // namespace bytetape::examples
