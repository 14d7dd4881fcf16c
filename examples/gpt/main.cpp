// Trains a GPT-2 on the characters of a text, prints a sample, and reports its memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <numbers>

#include "examples/gpt/model.h"
#include "examples/gpt/sample.h"
#include "examples/program.h"
#include "examples/validators.h"

namespace {

using namespace bytetape;
using namespace bytetape::examples;

/// The options that other examples do not have, and the tokenizer, once the text is read.
struct GptRun {
  GptSizes sizes{.dropout = 0.1};
  Sampling sampling;
  std::string prompt = "\n";
  std::optional<data::CharTokenizer> tokenizer;
};

constexpr const char* default_text = "tinyshakespeare.txt";
constexpr std::int64_t shakespeare_characters = 1115394;

/// The last tenth of the text is for tests.
std::int64_t training_part(std::int64_t characters) { return characters * 9 / 10; }
std::int64_t windows_in(std::int64_t characters, std::int64_t context) {
  return std::max<std::int64_t>((characters - 1) / context, 0);
}

Splits load(GptRun& run, const Options& o) {
  const std::string name = o.data.empty() ? default_text : o.data;
  const auto path = data::find_text(name);
  check<FileError>(path.has_value(), "there is no text ", name,
                   ": give a text file with --data, or put tinyshakespeare.txt into $BYTETAPE_DATA/text or "
                   "~/.cache/bytetape/text");
  const std::string text = data::read_text(*path);
  run.tokenizer.emplace(text);
  run.tokenizer->encode(run.prompt);  // throws, before training, if the text lacks a character of the prompt
  run.sizes.vocabulary = run.tokenizer->size();
  const Tensor tokens = run.tokenizer->encode(text);
  const std::int64_t training = training_part(tokens.numel());
  check<ValueError>(windows_in(tokens.numel() - training, run.sizes.context) > 0, path->string(), ": ", tokens.numel(),
                    " characters are too few for a --context of ", run.sizes.context);
  const auto windows = [&](std::int64_t first, std::int64_t count) -> data::Batch {  // whole ones, as predicted
    const std::int64_t whole = windows_in(count, run.sizes.context) * run.sizes.context + 1;
    return {clone(narrow(tokens, 0, first, whole)), {}};
  };
  return {path->filename().string(), windows(0, training), windows(training, tokens.numel() - training)};
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

/// The mean over all characters of a batch.
Tensor mean_loss(const Tensor& logits, const Tensor& targets) {
  return cross_entropy(reshape(logits, {targets.numel(), logits.size(-1)}), flatten(targets));
}

/// The loss in nats per character, also of the test text.
Objective next_character() {
  return {.loss = [](const Tensor& logits, const Tensor&, const Tensor& targets) { return mean_loss(logits, targets); },
          .score = [](const Tensor& logits, const Tensor&,
                      const Tensor& targets) { return mean_loss(logits, targets) * targets.size(0); },
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

void show_sample(const GptRun& run, nn::Module& model) {
  const Tensor prompt = to(run.tokenizer->encode(run.prompt), default_device());
  const Tensor tokens = sample(model.as<Gpt>(), prompt, run.sampling);
  fmt::print("\na sample of {} characters:\n{}\n", run.sampling.tokens, run.tokenizer->decode(tokens));
}

void add_gpt_options(CLI::App& app, GptRun& run) {
  const auto positive = finite_from<std::int64_t>(1, "POSITIVE");
  app.add_option("--context", run.sizes.context, "characters that the model sees")->check(positive);
  app.add_option("--layers", run.sizes.layers, "transformer blocks")->check(positive);
  app.add_option("--heads", run.sizes.heads, "attention heads in a block; must divide --width")->check(positive);
  app.add_option("--width", run.sizes.width, "features of a token")->check(positive);
  app.add_option("--dropout", run.sizes.dropout, "dropout probability in training")->check(CLI::Range(0.0, 1.0));
  app.add_option("--generate", run.sampling.tokens, "characters in the sample after training; 0: none")
      ->check(finite_from_0<std::int64_t>());
  app.add_option("--prompt", run.prompt, "text that the sample continues; default: a line break")
      ->default_str("")
      ->check([](const std::string& text) { return text.empty() ? "a prompt needs a character" : ""; }, "TEXT");
  app.add_option("--temperature", run.sampling.temperature, "randomness of the sample; 0: the most likely characters")
      ->check(finite_from_0<double>());
  app.add_option("--top-k", run.sampling.top_k, "choose among the k most likely characters; 0: all")
      ->check(finite_from_0<std::int64_t>());
}

/// Sets what depends on the sizes. A prediction is of Shakespeare's text.
void apply_sizes(const GptSizes& s, Example& example, Options& o) {
  check<ValueError>(s.width % s.heads == 0, "--heads ", s.heads, " does not divide --width ", s.width);
  o.model = fmt::format("gpt2 of {} layers, {} heads, width {}, context {}, dropout {}", s.layers, s.heads, s.width,
                        s.context, s.dropout);
  const std::int64_t training = training_part(shakespeare_characters);
  example.counts = {windows_in(training, s.context), windows_in(shakespeare_characters - training, s.context)};
  example.data.unit.per_example = s.context;
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
       .description = "Trains a GPT-2 on the characters of a text, and reports the memory of training.",
       .texts = {.examples = "windows of --context characters",
                 .data = "a text file, plain or gzip; default: tinyshakespeare.txt in $BYTETAPE_DATA/text or "
                         "~/.cache/bytetape/text",
                 .lr = "AdamW's highest learning rate; the rate rises linearly in the first twentieth, then falls as a "
                       "cosine to a tenth",
                 .until = "stop after the epoch that reaches this loss on the test text"},
       .defaults = defaults(),
       .data = text_data(run),
       .objective = next_character(),
       .load = [&](const Options& o) { return load(run, o); },
       .make_model = [&](const Options&) { return std::make_unique<Gpt>(run.sizes); },
       .make_recipe = make_recipe,
       .show =
           [&](nn::Module& model, const Options&) {
             if (run.sampling.tokens > 0) show_sample(run, model);
           },
       .add_options = [&](CLI::App& app) { add_gpt_options(app, run); },
       .apply_options = [&](Example& example, Options& o) { apply_sizes(run.sizes, example, o); }},
      argc, argv);
}
