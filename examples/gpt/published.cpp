#include "examples/gpt/published.h"

#include <bytetape/core/memory/advice.h>
#include <bytetape/core/memory/predict.h>
#include <bytetape/core/memory/recording.h>
#include <bytetape/core/memory/report.h>
#include <bytetape/core/memory/timeline.h>
#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "examples/gpt/config.h"
#include "examples/gpt/weights.h"
#include "examples/outputs.h"
#include "examples/report.h"

namespace bytetape::examples {
namespace {

/// A model and its prompts.
class Generation {
 public:
  Generation(const PublishedRun& run, const PublishedWeights& weights, const GptSizes& sizes,
             const data::BpeTokenizer& tokenizer)
      : sampling_(run.sampling), prompts_(encode(tokenizer, run.prompts)), model_(sizes) {
    sampling_.vocabulary = tokenizer.size();
    sampling_.end_token = tokenizer.find("<|endoftext|>");
    if (!default_device().is_meta) weights.load_into(model_);
  }
  Gpt& model() { return model_; }
  /// Returns the number of new tokens.
  std::int64_t operator()(const OnToken& on_token) { return sample(model_, prompts_, sampling_, on_token); }

 private:
  Sampling sampling_;
  std::vector<Tensor> prompts_;
  Gpt model_;
};

/// Returns the number of tokens of all prompts, after a check of each.
std::int64_t count_prompt_tokens(const PublishedRun& run, const data::BpeTokenizer& tokenizer, std::int64_t context) {
  std::int64_t n = 0;
  for (const std::string& prompt : run.prompts) {
    const Tensor tokens = tokenizer.encode(prompt);
    check_prompt(tokens, context);
    n += tokens.numel();
  }
  return n;
}

void write_results(const Options& o, std::int64_t prompt_tokens, std::int64_t tokens, std::optional<double> seconds,
                   const memory::Statistics& memory) {
  if (o.json.empty()) return;
  const auto number = [&](double v) { return seconds ? nlohmann::json(v) : nullptr; };
  const nlohmann::ordered_json out{{"example", "gpt"},
                                   {"model", o.model},
                                   {"device", o.device},
                                   {"threads", num_threads()},
                                   {"seed", o.seed},
                                   {"prompt_tokens", prompt_tokens},
                                   {"new_tokens", tokens},
                                   {"generate_seconds", number(seconds.value_or(0))},
                                   {"tokens_per_s", number(static_cast<double>(tokens) / seconds.value_or(1))},
                                   {"peak_allocated", memory.allocated.peak},
                                   {"peak_reserved", memory.reserved.peak}};
  write_file(o.json, json_name, [&](std::ostream& file) { file << out.dump(2) << '\n'; });
}

void write_memory(const Options& o, const memory::Snapshot& memory) {
  if (o.reports_page()) {
    const memory::Log log = memory::read_log(o.recorded_to());
    memory::write_report(memory::Report{&log, nullptr, memory::advice_texts(log)}, o.memory_report);
  } else if (!o.memory_report.empty()) {
    memory::write_timeline(memory, o.memory_report);
  }
  print_files(o, false);
}

void predict_text(const PublishedRun& run, const Options& o, const PublishedWeights& weights, const GptSizes& sizes,
                  const data::BpeTokenizer& tokenizer) {
  const std::int64_t prompt_tokens = count_prompt_tokens(run, tokenizer, sizes.context);
  memory::PredictOptions options{.min_steps = 1, .max_steps = 1, .recording = o.recorded_to()};
  if (o.memory_limit) options.limit = o.memory_limit;
  const memory::Prediction p = memory::predict(
      Device::parse(o.device),
      [&] {
        auto generation = std::make_shared<Generation>(run, weights, sizes, tokenizer);
        return [generation] { (*generation)([](std::size_t, std::int64_t) {}); };
      },
      options);
  const std::int64_t prompts = std::ssize(run.prompts), tokens = run.sampling.tokens * prompts;
  fmt::print("generating {} tokens{}\n{}", run.sampling.tokens,
             prompts > 1 ? fmt::format(" after each of {} prompts", prompts) : "", memory::summarize(p));
  write_results(o, prompt_tokens, tokens, std::nullopt, p.snapshot.statistics);
  write_memory(o, p.snapshot);
  if (p.out_of_memory) throw *p.out_of_memory;
}

}  // namespace

void generate_text(const PublishedRun& run, const Options& o) {
  using Clock = std::chrono::steady_clock;
  const Device device = Device::parse(o.device);
  const data::BpeTokenizer tokenizer(run.tokenizer);
  const PublishedWeights weights(run.weights);
  const GptSizes sizes = check_published(weights, run.heads);
  check_vocabulary(tokenizer, sizes);
  if (o.predict || device.is_meta) return predict_text(run, o, weights, sizes, tokenizer);
  const std::int64_t prompt_tokens = count_prompt_tokens(run, tokenizer, sizes.context);
  memory::empty_cache(Device::cpu());  // what the file was read with
  std::optional<memory::Recording> recording;
  if (!o.recorded_to().empty()) recording.emplace(o.recorded_to(), "gpt", recording_options(o));
  manual_seed(o.seed);
  const DefaultDevice here(device);
  Generation generation(run, weights, sizes, tokenizer);
  memory::reset_peaks(device);  // that of loading, which takes a buffer on the CPU
  fmt::print("{}\n", nn::summary(generation.model()));
  SamplePrinter printer(tokenizer, run.prompts, run.prompts.size() > 1 ? "\na sample:\n" : "");
  const auto start = Clock::now();
  const std::int64_t tokens = generation(std::ref(printer));
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  printer.finish();
  const std::string of = run.prompts.size() > 1 ? fmt::format("{} prompts", run.prompts.size()) : "a prompt";
  fmt::print("\n  {} tokens after {} of {}: {:.2f} s, {:.0f} tokens/s\n\n", tokens, of, prompt_tokens, seconds,
             static_cast<double>(tokens) / seconds);
  const memory::Snapshot memory = memory::snapshot(device);
  fmt::print("{}", memory::summarize(memory));
  write_results(o, prompt_tokens, tokens, seconds, memory.statistics);
  if (recording) recording->finish();
  write_memory(o, memory);
}

}  // namespace bytetape::examples
