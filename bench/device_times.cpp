// Times captured steps in a recording without device times, and in recordings that time every k-th step on the device.
// Prints a JSON line for each, with the mean device time of the timed steps.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/training.h"
#include "core/memory/recording.h"
#include "core/memory/step.h"
#include "core/memory/times.h"
#include "cuda/cuda.h"

namespace {

using namespace bytetape;

/// The time of `steps` captured steps in ms per step, which are recorded to `path` with these options.
double ms_per_step(const bench::Workload& w, int steps, const std::string& path,
                   const memory::RecordingOptions& options) {
  const Device device = default_device();
  const memory::Recording recording(path, w.name, options);
  manual_seed(0);
  bench::Training training(w);
  auto captured = capture([&] { return training.step(); });
  const auto step = [&] {
    const memory::Step marks;
    captured();
  };
  for (int i = 0; i < 10; ++i) step();
  return bench::time(0, steps, step, [&] { synchronize(device); }).median / 1e6;
}

/// The mean time in ms from the first to the last device work of a recording's timed steps, without the first few,
/// which are not captured. 0 if it has none.
double device_ms(const std::string& path) {
  double sum = 0;
  int count = 0;
  for (const memory::StepTime& step : memory::step_times(memory::read_log(path)))
    if (step.device && step.step > 10) sum += static_cast<double>(step.device->span()) / 1e6, ++count;
  return count ? sum / count : 0;
}

void measure(const bench::Workload& w, int steps, const std::vector<std::uint32_t>& everys) {
  cuda::set_allow_tf32(w.precision == "tf32");
  const std::string path = std::filesystem::temp_directory_path() / "bytetape_device_times.memlog";
  const double without = ms_per_step(w, steps, path, {});
  for (const std::uint32_t every : everys) {
    const double ms = every ? ms_per_step(w, steps, path, {.device_times_every = every}) : without;
    const nlohmann::ordered_json line{{"workload", w.name},
                                      {"mode", "graph"},
                                      {"device_times_every", every},
                                      {"ms_per_step", ms},
                                      {"device_ms", every ? device_ms(path) : 0},
                                      {"overhead_percent", 100 * (ms / without - 1)}};
    std::cout << line.dump() << std::endl;
  }
  std::filesystem::remove(path);
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times captured steps with and without device times; prints a JSON line for each. Needs a GPU."};
  int steps = 300;
  std::vector<std::string> names{"mlp_b256_tf32", "resnet18_b128_bf16", "gpt2_b8_bf16"};
  std::vector<std::uint32_t> everys{0, 1, 10, 100};
  app.add_option("--steps", steps, "steps of each measurement; seven measurements give the median");
  app.add_option("--every", everys, "time every so many-th step on the device; 0: none")->delimiter(',');
  app.add_option("workloads", names, "names of bench/workloads");
  CLI11_PARSE(app, argc, argv);
  return bench::run("device_times", [&] {
    const DefaultDevice here(Device::cuda());
    for (const bench::Workload& w : bench::workloads())
      if (std::find(names.begin(), names.end(), w.name) != names.end()) measure(w, steps, everys);
  });
}
