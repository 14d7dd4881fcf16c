#include "examples/cifar10/race.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "examples/cifar10/race_report.h"
#include "examples/cifar10/race_run.h"
#include "examples/validators.h"

namespace bytetape::examples {
namespace {

constexpr std::string_view taken[] = {"--race",   "--seeds",   "--epochs", "--batch-size", "--data",
                                      "--device", "--threads", "--amp",    "--seed",       "--json"};

/// The race's own options, and which common ones are given.
struct RaceCommand {
  const CLI::App* app = nullptr;
  bool races = false;
  int seeds = 1;
  CLI::Option *epochs = nullptr, *batch_size = nullptr;

  RaceOptions options(const Options& o) const {
    RaceOptions race;
    if (epochs->count() > 0) race.epochs = o.epochs;
    if (batch_size->count() > 0) race.batch_size = o.batch_size;
    return race;
  }
  /// Throws ValueError if an option is given that a race would ignore.
  void check_options() const {
    for (const CLI::Option* option : app->get_options())
      check<ValueError>(option->count() == 0 || std::ranges::find(taken, option->get_name()) != std::end(taken),
                        "--race does not take ", option->get_name());
  }
};

/// Trains once for each seed, and reports all runs. A GPU first takes an unmeasured run, which captures the steps.
void race(const RaceCommand& command, const std::function<Splits(const Options&)>& load, const Options& o) {
  const DefaultDevice here(Device::parse(o.device));
  const bool is_gpu = default_device().type == DeviceType::cuda;
  check<ValueError>(!default_device().is_meta, "--race trains: ", default_device(), " only predicts");
  check<ValueError>(dist::init().size() == 1, "--race runs in one process, not in ", dist::init().size());
  if (is_gpu) cuda::set_allow_tf32(false);  // the whitening filters need all digits
  const DType dtype = o.amp ? DType::bf16 : is_gpu ? DType::f16 : DType::f32;
  const Splits splits = load(o);
  RaceData data(splits, dtype);
  const RaceOptions options = command.options(o);
  Race race(data, options, dtype);
  fmt::print("{}: {} training and {} test images, {} epochs in batches of {}\n\n", splits.name, data.training_size(),
             data.test_size(), options.epochs, options.batch_size);
  if (is_gpu) race.run(o.seed, [](int, const RaceEpoch&) {});
  RaceReport report(options, o);
  for (int i = 0; i < command.seeds; ++i) {
    const std::uint64_t seed = o.seed + static_cast<std::uint64_t>(i);
    report.add(seed, race.run(seed, [&](int epoch, const RaceEpoch& state) { report.show(seed, epoch, state); }));
  }
  report.print();
  if (!o.json.empty()) report.write_json(splits.name);
}

}  // namespace

void add_race(Example& example) {
  const auto command = std::make_shared<RaceCommand>();
  example.add_options = [command](CLI::App& app) {
    command->app = &app;
    CLI::Option* const race =
        app.add_flag("--race", command->races,
                     "train a small network with Muon as fast as possible, in 9 epochs of batches of 2000; takes "
                     "--epochs, --batch-size, --data, --device, --threads, --amp, --seed and --json");
    app.add_option("--seeds", command->seeds, "with --race: number of runs, from --seed on")
        ->check(finite_from<int>(1, "POSITIVE"))
        ->needs(race);
    command->epochs = app.get_option("--epochs");
    command->batch_size = app.get_option("--batch-size");
  };
  example.apply_options = [command](Example& example, Options&) {
    if (!command->races) return;
    command->check_options();
    example.run_instead = [command, load = example.load](const Options& o) { race(*command, load, o); };
  };
}

}  // namespace bytetape::examples
