#include "examples/program.h"

#include <bytetape/core/memory/advice.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <vector>

#include "examples/interrupt.h"
#include "examples/outputs.h"
#include "examples/predicted.h"
#include "examples/report.h"
#include "examples/timed_advice.h"

namespace bytetape::examples {
namespace {

/// Throws DeviceError if the device cannot be used.
void check_device(const Options& o, Device device) {
  try {
    memory::allocator(o.predict ? Device::meta(device) : device);
  } catch (const DeviceError& e) {
    if (o.predict) throw;
    fail<DeviceError>(e.what(), "; --predict predicts the memory without the device");
  }
}

/// Throws if the options cannot be satisfied, before anything is done.
void check_options(const Example& example, const Options& o, Device device) {
  check_device(o, device);
  check<ValueError>(!o.fit || o.memory_limit > 0, "--fit needs a --memory-limit above 0");
  check<ValueError>(dist::init().size() == 1 || !o.memory_options.step_in_backward,
                    "--step-in-backward works on one rank");
  if (!o.picture.empty()) check_pictures();
  check_outputs(o, example.texts.picture_option);
  const bool trains = !o.predict && !device.is_meta;
  check<ValueError>(trains || (o.checkpoint.empty() && o.resume.empty() && o.picture.empty() && !o.time_advice),
                    device.is_meta ? "--device " + o.device : "--predict",
                    " trains nothing: leave out --checkpoint, --resume, --time-advice and pictures");
  check<ValueError>(!o.time_advice || (o.reports_page() && dist::init().size() == 1),
                    "--time-advice needs a --memory-report FILE.html, and works on one rank");
}

/// Writes the files that the options name. `measured` is nullopt for a prediction.
void write_files(const Run& run, const std::optional<TrainingResult>& measured, const memory::Snapshot& memory,
                 const std::function<void(const std::string&)>& write_page) {
  const Options& o = run.options;
  if (!o.json.empty()) write_json(run, measured, memory.statistics);
  if (o.reports_page())
    write_page(o.memory_report);
  else if (!o.memory_report.empty())
    memory::write_timeline(memory, o.memory_report);
  print_files(o, measured && !measured->is_finished());
}

/// Sets the memory options so that training fits the limit, and prints them. If nothing fits, training runs out of
/// memory later.
void choose_memory_options(const Example& example, Options& o, const ExampleCounts& counts) {
  const nn::Fit found = fit(example, o, counts);
  fmt::print("{}\n\n", found.text());
  o.memory_options = o.memory_options.with(found.memory_options);
}

/// The advice of a report: on checkpoints and failed requests, on memory options, and on the largest batch that fits,
/// if that is known.
struct PageAdvice {
  std::vector<std::string> texts;
  std::vector<nn::Saving> savings;
  std::string largest_batch;
};

PageAdvice advice_on(const memory::Log& log, const Example& example, const Options& o, const ExampleCounts& counts) {
  const bool is_here = !o.predict && !Device::parse(o.device).is_meta;
  return {memory::advice_texts(log), savings(example, o, counts),
          o.memory_limit || is_here ? largest_batch(example, o, counts) : ""};
}

void write_page(const memory::Log& log, const PageAdvice& advice, const Options& o, const std::string& path) {
  std::vector<std::string> texts = advice.texts;
  // Only advice on a failed request calls nn::fit. Examples have a switch for it.
  const auto failure = std::ranges::find_if(texts, [](const auto& t) { return t.find("\nconst nn::Fit ") != t.npos; });
  if (failure != texts.end())
    *failure = (advice.largest_batch.empty() ? "" : advice.largest_batch + ". ") +
               "--fit chooses memory options with which training fits the limit, or says what is enough\n--fit";
  for (const nn::Saving& saving : advice.savings) texts.push_back(advice_text(saving, o));
  if (failure == texts.end() && !advice.largest_batch.empty()) texts.push_back(advice.largest_batch);
  memory::write_report(memory::Report{&log, nullptr, texts}, path);
}

/// Writes the report of the recording that the options name.
void write_page(const Example& example, const Options& o, const ExampleCounts& counts, const std::string& path) {
  const memory::Log log = memory::read_log(o.recorded_to());
  write_page(log, advice_on(log, example, o, counts), o, path);
}

/// Prints the memory that training would take and, under a limit, the largest batch that fits.
/// Throws OutOfMemory if this batch does not fit.
void print_prediction(const Example& example, const Options& options) {
  {
    const DefaultDevice here(Device::meta(Device::parse(options.device)));
    fmt::print("{}\n", nn::summary(*example.make_model(options)));
  }
  const auto& [training, testing] = example.counts;
  fmt::print("training in batches of {}{}, with {} training and {} test {} on the device,\n", options.batch_size,
             options.accumulated > 1 ? fmt::format(", {} in a step", options.accumulated) : "", training, testing,
             example.data.unit.examples);
  Options o = options;
  if (o.fit) choose_memory_options(example, o, example.counts);
  const memory::Prediction p = predict(example, o, example.counts);
  fmt::print("{}", memory::summarize(p));
  if (o.memory_limit) fmt::print("\n{}\n", largest_batch(example, o, example.counts));
  if (o.memory_limit && Device::parse(o.device).type == DeviceType::cuda)
    fmt::print(
        "CUDA's context and libraries take more memory (534 MiB on an H100): set --memory-limit to the GPU's memory "
        "minus that\n");
  const auto write = [&](const std::string& path) { write_page(example, o, example.counts, path); };
  write_files({example.name, "none", example.objective, o, example.data.unit}, std::nullopt, p.snapshot, write);
  if (p.out_of_memory) throw *p.out_of_memory;
}

ExampleCounts counts_of(const Example& example, const Splits& splits) {
  return {example.data.count(splits.training), example.data.count(splits.testing)};
}

/// Returns a rank's own path beside that of rank 0: "run.html" becomes "run.rank1.html".
std::string path_of_rank(const std::string& path, int rank) {
  if (path.empty() || rank == 0) return path;
  const std::filesystem::path of_all = path;
  const std::string name = fmt::format("{}.rank{}{}", of_all.stem().string(), rank, of_all.extension().string());
  return std::filesystem::path(of_all).replace_filename(name).string();
}

/// Writes a page that lays the memory of all ranks side by side: "run.ranks.html" beside "run.html".
void write_rank_index(const Options& o) {
  const dist::Group world = dist::init();
  if (world.size() == 1 || !o.reports_page()) return;
  const std::string path = std::filesystem::path(o.memory_report).replace_extension("ranks.html").string();
  const auto page_of = [&](int rank) { return path_of_rank(o.memory_report, rank); };
  dist::write_rank_index(path, page_of, world);
  fmt::print("memory of all ranks: {}\n", path);
}

/// Trains, prints and writes the results, then draws the picture. The picture is last, so that an error there loses
/// nothing else. Frees the splits once they are copied to the device. Returns true if training was finished.
bool train(std::optional<Splits>& splits, const Example& example, nn::Module& model, const Recipe& recipe,
           const std::optional<Checkpoint>& resumed, std::optional<memory::Recording>& recording, const Run& run) {
  const Options& o = run.options;
  const ExampleCounts counts = counts_of(example, *splits);
  const char* const unit = example.data.unit.examples;
  fmt::print("{}: {} training and {} test {}\n\n", splits->name, counts.training, counts.testing, unit);
  const std::string optimizer = o.optimizer == example.defaults.optimizer ? "" : " --optimizer " + o.optimizer;
  const std::string batches =
      o.accumulated > 1 ? fmt::format("{} x {}", o.accumulated, o.batch_size) : fmt::to_string(o.batch_size);
  const int ranks = dist::init().size();
  const std::string name = fmt::format("{} --model {}{} --batch-size {} --seed {} on {} {} of {}{}", example.name,
                                       o.model, optimizer, batches, o.seed, counts.training, unit, splits->name,
                                       ranks > 1 ? fmt::format(", {} ranks", ranks) : "");
  const std::unique_ptr<data::ResidentDataset> training = example.data.make_resident(splits->training),
                                               testing = example.data.make_resident(splits->testing);
  splits.reset();
  Training training_run({name, model, example.objective, recipe, *training, *testing, example.data.unit}, o);
  if (resumed) training_run.resume(*resumed);
  catch_interrupts();
  const TrainingResult result = training_run.run();
  release_interrupts();
  print_results(run, result);
  memory::Log log;
  PageAdvice advice;
  write_files(run, result, memory::snapshot(default_device()), [&](const std::string& path) {
    recording->finish();
    log = memory::read_log(o.recorded_to());
    advice = advice_on(log, example, o, counts);
    write_page(log, advice, o, path);
  });
  write_rank_index(o);
  if (example.show && result.is_finished()) example.show(model, o);
  if (!o.picture.empty() && result.is_finished()) {
    example.draw(model, *testing).write_png(o.picture);
    fmt::print("picture: {}\n", o.picture);
  }
  if (o.time_advice && result.is_finished()) {  // last, because it may be interrupted
    time_advice(advice.texts, advice.savings, log, example, o, {*training, *testing});
    write_page(log, advice, o, o.memory_report);
  }
  if (recording) recording->finish();  // before training frees its memory, as in a prediction's recording
  return result.is_finished();
}

/// Trains on the device that the options name. Sets `counts` once the dataset is read. Returns true if finished.
bool train(const Example& example, Options o, ExampleCounts& counts, std::optional<memory::Recording>& recording) {
  const auto resumed = o.resume.empty() ? std::nullopt : std::optional<Checkpoint>(o.resume);
  std::optional<Splits> splits = example.load(o);
  counts = counts_of(example, *splits);
  if (o.fit) choose_memory_options(example, o, counts);
  manual_seed(o.seed);
  const DefaultDevice here(Device::parse(o.device));
  const std::unique_ptr<nn::Module> model = example.make_model(o);
  o.memory_options.apply(*model);
  fmt::print("{}\n", nn::summary(*model));
  const Recipe recipe = example.make_recipe(*model, o);
  if (o.memory_options.step_in_backward && recipe.clip > 0) fmt::print("--step-in-backward clips no gradients\n\n");
  return train(splits, example, *model, recipe, resumed, recording,
               {example.name, splits->name, example.objective, o, example.data.unit});
}

/// Writes the report of a run that ran out of memory. Errors are printed, not thrown, so that they do not hide that.
void write_page_up_to_here(memory::Recording& recording, const Example& example, const Options& o,
                           const ExampleCounts& counts) {
  try {
    recording.finish();
    if (!o.reports_page()) return;
    write_page(example, o, counts, o.memory_report);
    std::cerr << "memory report: " << o.memory_report << '\n';
  } catch (const Error& e) { std::cerr << "no memory report: " << e.what() << '\n'; }
}

/// Returns the exit status.
int run(const Example& example, const Options& o) {
  const Device device = Device::parse(o.device);
  check_options(example, o, device);
  if (o.threads) set_num_threads(o.threads);
  if (device.type == DeviceType::cuda) cuda::set_allow_tf32(true);
  const bool is_predicted = o.predict || device.is_meta;
  if (o.memory_limit && !is_predicted) memory::set_limit(o.memory_limit, device);
  if (example.run_instead) {
    example.run_instead(o);
    return 0;
  }
  if (is_predicted) {
    print_prediction(example, o);
    return 0;
  }
  std::optional<memory::Recording> recording;
  if (!o.recorded_to().empty()) recording.emplace(o.recorded_to(), example.name, recording_options(o));
  ExampleCounts counts = example.counts;
  try {
    return train(example, o, counts, recording) ? 0 : 128 + interrupted();
  } catch (const OutOfMemory& e) {
    if (recording) write_page_up_to_here(*recording, example, o, counts);
    if (o.memory_limit == 0 || e.shortage().device != device) throw;
    throw Error(fmt::format("{}\n{}", e.what(), largest_batch(example, o, counts)));
  }
}

}  // namespace

DataKind image_data(const Shape& image, const data::Normalize& normalize) {
  return {.unit = {},
          .allocate = [image](std::int64_t n) -> data::Batch {
            Shape shape = image;
            shape.insert(0, n);
            return {empty(shape, DType::u8, Device::meta(), memory::Role::input),
                    empty(n, DType::i64, Device::meta(), memory::Role::input)};
          },
          .count = [](const data::Batch& split) { return split.x.size(0); },
          .make_resident =
              [normalize](const data::Batch& split) {
                return std::make_unique<data::ResidentImages>(split.x, split.y, normalize);
              }};
}

namespace {

/// Gives a rank its GPU. Lets rank 0 alone print and write files, except memory recordings, of which each rank has its
/// own.
void become_rank(Options& o, const dist::Group& world) {
  const int rank = world.rank();
  if (world.size() > 1 && o.device == "cuda")
    o.device = fmt::format("cuda:{}", dist::local_rank() % std::max(1, cuda::device_count()));
  if (rank == 0) return;
  if (!std::freopen("/dev/null", "w", stdout)) fail<FileError>("cannot open /dev/null");
  o.json = o.checkpoint = o.picture = "";
  for (std::string* const path : {&o.memory_report, &o.memory_log}) *path = path_of_rank(*path, rank);
}

}  // namespace

int run_example(Example example, int argc, char** argv) {
  share_cores(argv);
  Options o = example.defaults;
  CLI::App app{example.description, example.name};
  add_options(app, o, example.texts);
  if (example.add_options) example.add_options(app);
  int status = 0;
  const auto program = [&] {
    const dist::Group world = dist::init(std::chrono::hours(1));  // a test of rank 0 may take long
    try {
      parse(app, argc, argv);
    } catch (const CLI::ParseError& e) {
      if (world.rank() == 0) app.exit(e);  // prints the help or the error
      status = e.get_exit_code() == 0 ? 0 : 2;
      return;
    }
    if (example.apply_options) example.apply_options(example, o);
    become_rank(o, world);
    status = run(example, o);
  };
  return dist::run(program, example.name) ? 1 : status;
}

}  // namespace bytetape::examples
