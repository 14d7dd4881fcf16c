#include "examples/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "examples/interrupt.h"
#include "examples/outputs.h"
#include "examples/report.h"

namespace bytetape::examples {
namespace {

/// What the options ask for that cannot be had is said before anything is done.
void check_options(const Example& example, const Options& o, Device device) {
  memory::allocator(device);  // is there a backend?
  if (!o.picture.empty()) check_pictures();
  check_outputs(o, example.texts.picture_option);
  check<ValueError>(!device.is_meta || (o.checkpoint.empty() && o.resume.empty() && o.picture.empty()), "on ", o.device,
                    " nothing is trained: leave out --checkpoint, --resume and pictures");
}

/// Of a run on the default device, which on meta measured nothing.
void write_files(const Run& run, const std::optional<TrainingResult>& measured) {
  const Options& o = run.options;
  if (!o.json.empty()) write_json(run, measured);
  if (!o.memory_report.empty()) memory::write_timeline(memory::allocator(default_device()).snapshot(), o.memory_report);
  print_files(o, measured && !measured->is_finished());
}

/// Two steps on the meta device: no data is touched, and the books say what a real run would hold.
void predict(const Example& example, nn::Module& model, const Recipe& recipe, const Run& run) {
  const Options& o = run.options;
  const Device device = default_device();
  TrainingStep step(model, *recipe.optimizer, example.objective, o.amp);
  Shape batch = example.image;
  batch.insert(0, o.batch_size);
  for (int i = 0; i < 2; ++i) {
    const memory::Step mark(device);
    const Tensor x = empty(batch, DType::f32, device, memory::Role::input);
    const Tensor y = empty({o.batch_size}, DType::i64, device, memory::Role::input);
    step(x, y);
  }
  fmt::print("predicted, without touching data, for batches of {}:\n\n{}", o.batch_size,
             memory::summarize(memory::allocator(device).snapshot()));
  write_files(run, std::nullopt);
}

/// On the default device.
data::ResidentImages resident(const data::Batch& split, const data::Normalize& normalize) {
  return {split.x, split.y, normalize};
}

/// Trains, says what came of it, and draws it, which comes last: what fails there costs nothing else. The splits end
/// once they lie on the device: a GPU has its own. Gives whether training was finished.
bool train(std::optional<Splits>& splits, const Example& example, nn::Module& model, const Recipe& recipe,
           const std::optional<Checkpoint>& resumed, const Run& run) {
  const Options& o = run.options;
  fmt::print("{}: {} training and {} test images\n\n", splits->name, splits->training.x.size(0),
             splits->testing.x.size(0));
  const std::string name = fmt::format("{} --model {} --batch-size {} --seed {} on {} images of {}", example.name,
                                       o.model, o.batch_size, o.seed, splits->training.x.size(0), splits->name);
  const data::ResidentImages training = resident(splits->training, example.normalize),
                             testing = resident(splits->testing, example.normalize);
  splits.reset();
  Training training_run({name, model, example.objective, recipe, training, testing}, o);
  if (resumed) training_run.resume(*resumed);
  catch_interrupts();
  const TrainingResult result = training_run.run();
  release_interrupts();
  print_results(run, result);
  write_files(run, result);
  if (!o.picture.empty() && result.is_finished()) {
    example.draw(model, testing).write_png(o.picture);
    fmt::print("picture: {}\n", o.picture);
  }
  return result.is_finished();
}

/// Gives the exit status.
int run(const Example& example, const Options& o) {
  const Device device = Device::parse(o.device);
  check_options(example, o, device);
  if (o.threads) set_num_threads(o.threads);
  if (o.memory_limit) memory::allocator(device).set_limit(o.memory_limit);
  const auto resumed = o.resume.empty() ? std::nullopt : std::optional<Checkpoint>(o.resume);
  auto splits = device.is_meta ? std::nullopt : std::optional(example.load(o));
  manual_seed(o.seed);
  const DefaultDevice here(device);
  if (device.type == DeviceType::cuda) cuda::set_allow_tf32(true);
  nn::Sequential model = example.make_model(o);
  fmt::print("{}\n", nn::summary(model));
  const Recipe recipe = example.make_recipe(model, o);
  const Run run{example.name, splits ? splits->name : "none", example.objective, o};

  if (!device.is_meta) return train(splits, example, model, recipe, resumed, run) ? 0 : 128 + interrupted();
  predict(example, model, recipe, run);
  return 0;
}

}  // namespace

int run_example(const Example& example, int argc, char** argv) {
  share_cores(argv);
  Options o = example.defaults;
  CLI::App app{example.description, example.name};
  add_options(app, o, example.texts);
  try {
    app.parse(argc, argv);
    return run(example, o);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : 2; } catch (const std::exception& e) {
    std::cerr << example.name << ": " << e.what() << '\n';
    return 1;
  }
}

}  // namespace bytetape::examples
