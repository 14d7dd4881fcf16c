// Trains a GPT-2 on a text, or loads published weights, generates text, and reports the memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "examples/gpt/config.h"
#include "examples/gpt/model.h"
#include "examples/gpt/published.h"
#include "examples/gpt/sample.h"
#include "examples/gpt/text.h"
#include "examples/gpt/weights.h"
#include "examples/program.h"
#include "examples/validators.h"

namespace {

using namespace bytetape;
using namespace bytetape::examples;

/// The options that other examples do not have, and what they name.
struct GptRun {
  GptSizes sizes{.dropout = 0.1};
  std::int64_t tokens = 0;  // in a training step; 0: those of a batch
  Sampling sampling;
  std::vector<std::string> prompts;  // none: the default
  std::string size, weights, tokenizer_dir;
  const CLI::App* app = nullptr;
  std::unique_ptr<data::Tokenizer> tokenizer;  // of characters, once the text is read, if there is no tokenizer_dir
  std::unique_ptr<PublishedWeights> published;

  const char* unit() const { return tokenizer_dir.empty() ? "characters" : "tokens"; }
  std::optional<std::int64_t> given_heads() const {
    return app->count("--heads") > 0 ? std::optional(sizes.heads) : std::nullopt;
  }
};

constexpr std::int64_t shakespeare_characters = 1115394, shakespeare_tokens = 338025;  // of GPT-2's tokenizer

/// The last tenth of the text is for tests.
std::int64_t training_part(std::int64_t characters) { return characters * 9 / 10; }
std::int64_t windows_in(std::int64_t characters, std::int64_t context) {
  return std::max<std::int64_t>((characters - 1) / context, 0);
}

/// Sets the model's vocabulary to the tokenizer's. Published weights have one already.
void set_vocabulary(GptRun& run) {
  run.sampling.vocabulary = run.tokenizer->size();
  if (run.published)
    check_vocabulary(*run.tokenizer, run.sizes);
  else
    run.sizes.vocabulary = run.tokenizer->size();
}

/// Reads and encodes the text. Leaves memory as it was, as predictions leave it.
std::vector<std::int64_t> read_tokens(GptRun& run, const std::filesystem::path& path) {
  std::vector<std::int64_t> tokens;
  {
    const std::string text = read_text(path);
    if (!run.tokenizer) run.tokenizer = std::make_unique<data::CharTokenizer>(text);
    const Tensor encoded = run.tokenizer->encode(text);
    if (run.prompts.empty()) run.prompts = {default_prompt(*run.tokenizer, text, encoded)};
    check_prompts(*run.tokenizer, run.prompts, run.sizes.context);  // before training
    set_vocabulary(run);
    tokens = encoded.to_vector<std::int64_t>();
  }
  memory::empty_cache(Device::cpu());
  memory::reset_peaks(Device::cpu());
  return tokens;
}

/// Returns the numbers of windows in a text of this many tokens.
ExampleCounts count_windows(const GptRun& run, std::int64_t tokens) {
  const std::int64_t training = training_part(tokens), context = run.sizes.context;
  return {windows_in(training, context), windows_in(tokens - training, context)};
}

/// Throws ValueError if the text is too short for a test window.
void check_length(const GptRun& run, const std::filesystem::path& path, std::int64_t tokens) {
  check<ValueError>(count_windows(run, tokens).testing > 0, path.string(), ": ", tokens, ' ', run.unit(),
                    " are too few for a --context of ", run.sizes.context);
}

Splits load(GptRun& run, const Options& o) {
  const std::filesystem::path path = find_text(o.data);
  const std::vector<std::int64_t> tokens = read_tokens(run, path);
  const std::int64_t count = std::ssize(tokens), training = training_part(count);
  check_length(run, path, count);
  const auto windows = [&](std::int64_t first, std::int64_t available) -> data::Batch {  // whole ones, as predicted
    const std::int64_t whole = windows_in(available, run.sizes.context) * run.sizes.context + 1;
    Tensor x = empty(whole, DType::i64, Device::cpu(), memory::Role::input);
    std::copy_n(tokens.begin() + first, whole, x.data<std::int64_t>());
    return {x, {}};
  };
  return {path.filename().string(), windows(0, training), windows(training, count - training)};
}

DataKind text_data(const GptRun& run) {
  return {.unit = {"windows", "characters/s", "char/s", "characters_per_s"},
          .allocate = [&run](std::int64_t n) -> data::Batch {
            return {empty(n * run.sizes.context + 1, DType::i64, Device::meta(), memory::Role::input), {}};
          },
          .count = [&run](const data::Batch& split) { return windows_in(split.x.numel(), run.sizes.context); },
          .make_resident =
              [&run](const data::Batch& split) {
                return std::make_unique<data::ResidentTokens>(split.x, run.sizes.context);
              }};
}

/// The loss in nats per token, also of the test text.
Objective next_token() {
  return {.model_loss = [](nn::Module& model, const Tensor& tokens,
                           const Tensor& targets) { return model.as<Gpt>().loss(tokens, targets); },
          .score_dtype = DType::f32,
          .name = "loss",
          .short_name = "",
          .text = [](double figure) { return fmt::format("{:.4f}", figure); },
          .reaches = [](double figure, double loss) { return figure <= loss; }};
}

/// Rises linearly in the first twentieth, then falls as a cosine to a tenth.
double cosine(double part) {
  constexpr double warm_up = 0.05, last = 0.1;
  if (part < warm_up) return part / warm_up;
  return last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * (part - warm_up) / (1 - warm_up)));
}

/// Weight decay applies to matrices only.
Recipe make_recipe(nn::Module& model, const Options& o) {
  optim::ParamGroup decaying, others;
  for (const Tensor& x : model.parameters()) (x.rank() >= 2 ? decaying : others).params.push_back(x);
  decaying.weight_decay = 0.1;
  others.weight_decay = 0;
  return {.optimizer = std::make_unique<optim::AdamW>(std::vector{decaying, others},
                                                      optim::AdamWOptions{.lr = o.lr, .betas = {0.9, 0.99}}),
          .lr = cosine,
          .clip = 1};
}

/// Prints the samples of a trained model.
void show_samples(const GptRun& run, nn::Module& model) {
  const std::vector<Tensor> prompts = encode(*run.tokenizer, run.prompts);
  SamplePrinter printer(*run.tokenizer, run.prompts,
                        fmt::format("\na sample of {} {}:\n", run.sampling.tokens, run.unit()));
  sample(model.as<Gpt>(), prompts, run.sampling, std::ref(printer));
  printer.finish();
}

void add_gpt_options(CLI::App& app, GptRun& run) {
  run.app = &app;
  const auto positive = finite_from<std::int64_t>(1, "POSITIVE");
  std::vector<std::string> names;
  for (const auto& [name, sizes] : published_sizes()) names.push_back(name);
  auto* const size = app.add_option("--size", run.size, "a GPT-2 of OpenAI's sizes, with a context of 1024")
                         ->check(CLI::IsMember(names));
  auto* const weights = app.add_option(
      "--weights", run.weights,
      "start from a GPT-2's weights, a safetensors file as Hugging Face publishes it; without --data, generate only");
  auto* const tokenizer = app.add_option("--tokenizer", run.tokenizer_dir,
                                         "a folder with GPT-2's vocab.json and merges.txt; default: characters");
  weights->excludes(size)->needs(tokenizer);
  const auto add = [&](const char* name, std::int64_t& value, const char* text) {
    CLI::Option* const option = app.add_option(name, value, text)->check(positive)->excludes(size);
    return option;
  };
  add("--context", run.sizes.context, "tokens, such as characters, that the model sees")->excludes(weights);
  add("--layers", run.sizes.layers, "transformer blocks")->excludes(weights);
  add("--heads", run.sizes.heads,
      "attention heads in a block, which must divide --width; default: 4, or with --weights the n_head of config.json "
      "beside FILE, or without it one head for each 64 columns")
      ->default_str("");
  add("--width", run.sizes.width, "features of a token")->excludes(weights);
  app.add_option("--tokens", run.tokens,
                 "tokens in a training step, a multiple of --batch-size x --context: the gradients of several batches "
                 "are added up; 0: one batch")
      ->check(finite_from_0<std::int64_t>());
  app.add_option("--dropout", run.sizes.dropout, "dropout probability in training")->check(CLI::Range(0.0, 1.0));
  app.add_option("--generate", run.sampling.tokens, "tokens in the sample after training; 0: none")
      ->check(finite_from_0<std::int64_t>());
  app.add_option("--prompt", run.prompts,
                 "text that the sample continues; give it several times for several samples; default: a line break, or "
                 "the first token of a text without one")
      ->allow_extra_args(false)
      ->default_str("")
      ->check([](const std::string& text) { return text.empty() ? "a prompt needs a character" : ""; }, "TEXT");
  app.add_option("--temperature", run.sampling.temperature, "randomness of the sample; 0: the most likely tokens")
      ->check(finite_from_0<double>());
  app.add_option("--top-k", run.sampling.top_k, "choose among the k most likely tokens; 0: all")
      ->check(finite_from_0<std::int64_t>());
  app.add_option("--top-p", run.sampling.top_p,
                 "choose among the most likely tokens whose probabilities add up to p; 1: all")
      ->check(
          [](const std::string& text) {
            const double p = std::atof(text.c_str());
            return p > 0 && p <= 1 ? "" : "expected a number above 0 and at most 1, got " + text;
          },
          "PROBABILITY");
}

/// Sets the number of batches in a step from the tokens in a step.
void set_accumulated(const GptRun& run, Options& o) {
  if (run.tokens == 0) return;
  const std::int64_t batch = o.batch_size * run.sizes.context;
  check<ValueError>(run.tokens % batch == 0, "--tokens ", run.tokens, " is not a multiple of the ", batch,
                    " tokens of a batch, --batch-size ", o.batch_size, " times a context of ", run.sizes.context);
  o.accumulated = run.tokens / batch;
  check<ValueError>(o.accumulated == 1 || !o.memory_options.step_in_backward,
                    "--step-in-backward cannot add up the gradients of ", o.accumulated,
                    " batches: leave it or --tokens out");
}

/// Reads the text that a prediction is for, and returns the number of its tokens.
std::int64_t count_tokens(GptRun& run, const Options& o) {
  const std::filesystem::path path = find_text(o.data);
  const std::int64_t tokens = std::ssize(read_tokens(run, path));
  check_length(run, path, tokens);
  return tokens;
}

/// Returns the number of tokens in Shakespeare's text. Prints that a prediction assumes it.
std::int64_t assume_tokens(const GptRun& run, bool predicts) {
  const std::int64_t tokens = run.tokenizer ? shakespeare_tokens : shakespeare_characters;
  const std::string distinct = run.tokenizer ? "" : fmt::format(", {} of them distinct", run.sizes.vocabulary);
  if (predicts && dist::init().rank() == 0)
    fmt::print("no --data: assuming {}, of {} {}{}\n\n", default_text, tokens, run.unit(), distinct);
  return tokens;
}

/// Sets what depends on the sizes.
void apply_sizes(GptRun& run, Example& example, Options& o) {
  const GptSizes& s = run.sizes;
  check<ValueError>(s.width % s.heads == 0, "--heads ", s.heads, " does not divide --width ", s.width);
  o.model = fmt::format("gpt2 of {} layers, {} heads, width {}, context {}, dropout {}", s.layers, s.heads, s.width,
                        s.context, s.dropout);
  set_accumulated(run, o);
  const bool predicts = o.predict || Device::parse(o.device).is_meta;
  example.counts =
      count_windows(run, predicts && !o.data.empty() ? count_tokens(run, o) : assume_tokens(run, predicts));
  example.data.unit.per_example = s.context;
  if (!run.tokenizer_dir.empty()) {
    example.data.unit.rate = "tokens/s";
    example.data.unit.short_rate = "tok/s";
    example.data.unit.json_rate = "tokens_per_s";
  }
}

/// Throws ValueError, naming the given options, if some are for training only.
void refuse_training_options(const CLI::App& app) {
  std::string given;
  for (const char* name :
       {"--epochs", "--batch-size", "--lr", "--until", "--fit", "--recompute", "--step-in-backward", "--save-on-cpu",
        "--detect-anomaly", "--time-advice", "--tokens", "--dropout", "--checkpoint", "--resume"})
    if (app.count(name) > 0) given += (given.empty() ? "" : ", ") + std::string(name);
  check<ValueError>(given.empty(), "--weights without --data trains nothing: leave out ", given);
}

void apply_options(GptRun& run, Example& example, Options& o) {
  run.sampling.computed = o.amp ? DType::bf16 : DType::f32;
  if (!run.weights.empty() && o.data.empty()) {
    refuse_training_options(*run.app);
    o.model = run.weights;
    if (run.prompts.empty()) run.prompts = {"\n"};
    const PublishedRun published{run.weights, run.tokenizer_dir, run.given_heads(), run.prompts, run.sampling};
    example.run_instead = [published](const Options& o) { generate_text(published, o); };
    return;
  }
  const double dropout = run.sizes.dropout;
  if (!run.size.empty()) {
    const std::int64_t characters = run.sizes.vocabulary;
    run.sizes = published_sizes().at(run.size);
    run.sizes.vocabulary = characters;  // unless a tokenizer has more
  }
  if (!run.weights.empty()) {
    run.published = std::make_unique<PublishedWeights>(run.weights);
    run.sizes = check_published(*run.published, run.given_heads());
  }
  run.sizes.dropout = dropout;
  if (!run.tokenizer_dir.empty()) {
    run.tokenizer = std::make_unique<data::BpeTokenizer>(run.tokenizer_dir);
    set_vocabulary(run);
  }
  apply_sizes(run, example, o);
}

std::unique_ptr<nn::Module> make_model(const GptRun& run) {
  auto model = std::make_unique<Gpt>(run.sizes);
  if (run.published && !default_device().is_meta) run.published->load_into(*model);
  return model;
}

Options defaults() {
  Options o;
  o.epochs = 6;
  o.batch_size = 32;
  o.lr = 2e-3;
  o.until = 0;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  GptRun run;
  return run_example(
      {.name = "gpt",
       .description = "Trains a GPT-2 on a text, or generates text with published weights, and reports the memory.",
       .texts = {.examples = "windows of --context characters",
                 .data = "a text file, plain or gzip; default: tinyshakespeare.txt in $BYTETAPE_DATA/text or "
                         "~/.cache/bytetape/text",
                 .lr = "AdamW's highest learning rate; the rate rises linearly in the first twentieth, then falls as a "
                       "cosine to a tenth",
                 .until = "stop after the epoch that reaches this loss on the test text"},
       .defaults = defaults(),
       .data = text_data(run),
       .objective = next_token(),
       .load = [&](const Options& o) { return load(run, o); },
       .make_model = [&](const Options&) { return make_model(run); },
       .make_recipe = make_recipe,
       .show =
           [&](nn::Module& model, const Options&) {
             if (run.sampling.tokens > 0) show_samples(run, model);
           },
       .add_options = [&](CLI::App& app) { add_gpt_options(app, run); },
       .apply_options = [&](Example& example, Options& o) { apply_options(run, example, o); }},
      argc, argv);
}
