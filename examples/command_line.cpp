#include "examples/command_line.h"

#include <CLI/CLI.hpp>

#include "examples/as_bytes.h"
#include "examples/validators.h"

namespace bytetape::examples {
void add_options(CLI::App& app, Options& o, const OptionTexts& texts) {
  app.option_defaults()->always_capture_default();
  app.add_option("--model", o.model, "network to train")->check(CLI::IsMember(texts.models));
  if (!texts.optimizers.empty())
    app.add_option("--optimizer", o.optimizer, "which takes the steps")->check(CLI::IsMember(texts.optimizers));
  app.add_option("--data", o.data, texts.data);
  app.add_option("--epochs", o.epochs, "passes over the training images")->check(finite_from<int>(1, "POSITIVE"));
  app.add_option("--batch-size", o.batch_size, "images a step")->check(finite_from<int>(1, "POSITIVE"));
  app.add_option("--lr", o.lr, texts.lr)->check(finite_from_0<double>());
  app.add_option("--device", o.device,
                 "cpu, cuda, or meta (of the CPU) or meta:cuda to predict the memory without training");
  app.add_flag(
      "--predict", o.predict,
      "say what memory training takes, and the largest batch that fits --memory-limit, without training: neither "
      "data nor the device are needed");
  auto* limit =
      app.add_option("--memory-limit", o.memory_limit, "most memory of the device to take, such as 512MiB; 0: all")
          ->transform(as_bytes())
          ->check(finite_from_0<std::uint64_t>());
  app.add_flag(
         "--fit", o.fit,
         "make training fit --memory-limit: layers run forward again in backward, or what they keep for it goes to "
         "the host, as few as will do")
      ->needs(limit);
  app.add_flag("--recompute", o.memory_options.recompute,
               "keep less for backward: what one op can make again is made again");
  app.add_flag("--step-in-backward", o.memory_options.step_in_backward,
               "hold few gradients at a time: backward updates each parameter once its gradient is whole");
  auto* offload = app.add_flag_callback(
      "--save-on-cpu", [&] { o.memory_options.saved = {.keep = 0}; },
      "on a GPU, keep what is for backward on the host; on the CPU nothing");
  app.add_flag("--amp", o.amp, "mixed precision: compute in bf16 where torch.autocast does");
  auto* graph =
      app.add_flag("--graph", o.graph, "on a GPU, record a training step once, as a CUDA graph, and replay it")
          ->excludes(offload);
  app.add_flag("--detect-anomaly", o.detect_anomaly, "stop where a NaN is made, and say by which op")->excludes(graph);
  app.add_option("--until", o.until, texts.until)->check(finite_from_0<double>());
  app.add_option("--threads", o.threads, "CPU threads; 0: all")->check(finite_from_0<int>());
  app.add_option("--seed", o.seed, "of weights, dropout, shuffling and augmentation")
      ->check(finite_from_0<std::uint64_t>());
  app.add_option("--checkpoint", o.checkpoint,
                 "write all that the run goes on from to this file, after each epoch and on Ctrl-C");
  app.add_option("--resume", o.resume, "go on from such a file; with the same options, to the same bits");
  app.add_option(
      "--memory-report", o.memory_report,
      "write where memory went to this file: for a browser where it ends in .html, else the timeline as JSON");
  app.add_option("--memory-log", o.memory_log,
                 "record what happens to memory in this file, as it happens, for bytetape-memory; FILE.memlog beside a "
                 "report FILE.html");
  app.add_option("--json", o.json, "write the results (JSON) to this file");
  if (!texts.picture.empty()) app.add_option(texts.picture_option, o.picture, texts.picture);
}

}  // namespace bytetape::examples
