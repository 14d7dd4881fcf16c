#include "examples/program.h"

#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "examples/report.h"

namespace bytetape::examples {
namespace {

/// Two steps on the meta device: no data is touched, and the books say what a real run would hold.
void predict(const Example& example, nn::Module& model, const Recipe& recipe, const Options& o) {
  const Device device = default_device();
  TrainingStep step(model, *recipe.optimizer, o.amp);
  Shape batch = example.image;
  batch.insert(0, o.batch_size);
  for (int i = 0; i < 2; ++i) {
    const memory::Step mark(device);
    const Tensor x = empty(batch, DType::f32, device, memory::Role::input);
    const Tensor y = empty({o.batch_size}, DType::i64, device, memory::Role::input);
    step(x, y);
  }
}

/// On the default device.
data::ResidentImages resident(const data::Batch& split, const data::Normalize& normalize) {
  return {split.x, split.y, normalize};
}

/// The splits end once they lie on the device: a GPU has its own.
TrainingResult train_on(std::optional<Splits>& splits, const Example& example, nn::Module& model, const Recipe& recipe,
                        const Options& o) {
  fmt::print("{}: {} training and {} test images\n\n", splits->name, splits->training.x.size(0),
             splits->testing.x.size(0));
  const data::ResidentImages training = resident(splits->training, example.normalize),
                             testing = resident(splits->testing, example.normalize);
  splits.reset();
  return train(model, recipe, training, testing, o);
}

void run(const Example& example, const Options& o) {
  const Device device = Device::parse(o.device);
  memory::allocator(device);  // an unknown backend is said before anything is done
  if (o.threads) set_num_threads(o.threads);
  if (!o.json.empty()) check_writable(o.json, json_name);
  if (!o.memory_report.empty()) check_writable(o.memory_report, "the memory timeline");
  auto splits = device.is_meta ? std::nullopt : std::optional(example.load(o));
  manual_seed(o.seed);
  const DefaultDevice here(device);
  if (device.type == DeviceType::cuda) cuda::set_allow_tf32(true);
  nn::Sequential model = example.make_model(o);
  fmt::print("{}\n", nn::summary(model));
  const Recipe recipe = example.make_recipe(model, o);
  const Run run{example.name, splits ? splits->name : "none", o};

  std::optional<TrainingResult> measured;
  if (device.is_meta) {
    predict(example, model, recipe, o);
    fmt::print("predicted, without touching data, for batches of {}:\n\n{}", o.batch_size,
               memory::summarize(memory::allocator(device).snapshot()));
  } else {
    measured = train_on(splits, example, model, recipe, o);
    print_results(run, *measured);
  }
  if (!o.json.empty()) write_json(run, measured);
  if (o.memory_report.empty()) return;
  memory::write_timeline(memory::allocator(device).snapshot(), o.memory_report);
  fmt::print("\nmemory timeline: {}\n", o.memory_report);
}

}  // namespace

int run_example(const Example& example, int argc, char** argv) {
  share_cores(argv);
  Options o = example.defaults;
  CLI::App app{example.description, example.name};
  add_options(app, o, example.texts);
  try {
    app.parse(argc, argv);
    run(example, o);
    return 0;
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : 2; } catch (const std::exception& e) {
    std::cerr << example.name << ": " << e.what() << '\n';
    return 1;
  }
}

}  // namespace bytetape::examples
