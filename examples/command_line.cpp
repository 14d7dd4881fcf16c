#include "examples/command_line.h"

#include <bytetape/core/similar_name.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "examples/as_bytes.h"
#include "examples/validators.h"

namespace bytetape::examples {
namespace {

/// Returns the option that is most similar to `unknown`, "--epoch"; "" if none is.
std::string similar_option(const CLI::App& app, const std::string& unknown) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return most_similar(unknown, names);
}

}  // namespace

void parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extra = app.remaining();
    const auto option =
        std::ranges::find_if(extra, [](const std::string& word) { return word.starts_with('-') && word != "--"; });
    if (option == extra.end()) throw;
    const std::string unknown = option->substr(0, option->find('=')), meant = similar_option(app, unknown);
    throw CLI::ValidationError("unknown option " + unknown + (meant.empty() ? "" : ": did you mean " + meant + '?'));
  }
}

void add_options(CLI::App& app, Options& o, const OptionTexts& texts) {
  app.option_defaults()->always_capture_default();
  if (!texts.models.empty()) app.add_option("--model", o.model, "network to train")->check(CLI::IsMember(texts.models));
  if (!texts.optimizers.empty())
    app.add_option("--optimizer", o.optimizer, "optimizer to train with")->check(CLI::IsMember(texts.optimizers));
  app.add_option("--data", o.data, texts.data);
  app.add_option("--epochs", o.epochs, "passes over the training data")->check(finite_from<int>(1, "POSITIVE"));
  app.add_option("--batch-size", o.batch_size, detail::concat(texts.examples, " per batch"))
      ->check(finite_from<int>(1, "POSITIVE"));
  app.add_option("--lr", o.lr, texts.lr)->check(finite_from_0<double>());
  app.add_option("--device", o.device,
                 "cpu or cuda; or meta (for the CPU) or meta:cuda, which predict the memory without training");
  app.add_flag(
      "--predict", o.predict,
      "predict the memory of training, and the largest batch that fits --memory-limit, without training; needs "
      "neither the data nor the device");
  auto* limit =
      app.add_option("--memory-limit", o.memory_limit, "largest amount of device memory to use, such as 512MiB; 0: all")
          ->transform(as_bytes())
          ->check(finite_from_0<std::uint64_t>());
  app.add_flag(
         "--fit", o.fit,
         "make training fit --memory-limit: recompute layers in backward, or offload their saved tensors to the host, "
         "for as few layers as necessary")
      ->needs(limit);
  app.add_flag("--recompute", o.memory_options.recompute,
               "save less for backward: recompute each saved tensor that a single op can recompute");
  app.add_flag(
      "--step-in-backward", o.memory_options.step_in_backward,
      "hold few gradients at a time: backward updates each parameter as soon as its gradient is complete, and clips "
      "no gradients");
  app.add_flag_callback(
      "--save-on-cpu", [&] { o.memory_options.saved = {.keep = 0}; },
      "on a GPU, keep the tensors that are saved for backward on the host; no effect on the CPU");
  app.add_flag("--amp", o.amp, "mixed precision: compute in bf16 where torch.autocast does");
  auto* graph =
      app.add_flag("--graph", o.graph, "on a GPU, capture a training step once as a CUDA graph, and replay it");
  app.add_flag("--detect-anomaly", o.detect_anomaly, "stop at the first NaN, and name the op that made it")
      ->excludes(graph);
  app.add_option("--until", o.until, texts.until)->check(finite_from_0<double>());
  app.add_option("--threads", o.threads, "CPU threads; 0: all")->check(finite_from_0<int>());
  app.add_option("--seed", o.seed, "seed of weights, dropout, shuffling and augmentation")
      ->check(finite_from_0<std::uint64_t>());
  app.add_option("--checkpoint", o.checkpoint, "write the training state to this file, after each epoch and on Ctrl-C");
  app.add_option("--resume", o.resume,
                 "resume training from a --checkpoint file; with the same options, the results have the same bits");
  app.add_option(
      "--memory-report", o.memory_report,
      "write a memory report to this file: a page for a browser if it ends in .html, else the timeline as JSON");
  app.add_flag("--time-advice", o.time_advice,
               "after training, take steps without and with each checkpoint and memory option that the report advises, "
               "and add their times to the advice");
  app.add_option("--memory-log", o.memory_log,
                 "record all memory events in this file, for bytetape-memory; default: FILE.memlog if the report is "
                 "FILE.html");
  app.add_option("--device-times", o.device_times,
                 "in the recording, time the kernels of every K-th training step on a GPU; 0: of none")
      ->check(finite_from_0<std::uint32_t>());
  app.add_option("--json", o.json, "write the results (JSON) to this file");
  if (!texts.picture.empty()) app.add_option(texts.picture_option, o.picture, texts.picture);
}

}  // namespace bytetape::examples
