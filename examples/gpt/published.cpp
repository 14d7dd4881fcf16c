#include "examples/gpt/published.h"

#include <bytetape/core/memory/advice.h>
#include <bytetape/core/memory/predict.h>
#include <bytetape/core/memory/recording.h>
#include <bytetape/core/memory/report.h>
#include <bytetape/core/memory/timeline.h>
#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "examples/gpt/weights.h"
#include "examples/outputs.h"
#include "examples/report.h"

namespace bytetape::examples {
namespace {

/// A model, its tokenizer and its prompt.
class Generation {
 public:
  Generation(const PublishedRun& run, const PublishedWeights& weights, const data::BpeTokenizer& tokenizer)
      : sampling_(run.sampling),
        prompt_(to(tokenizer.encode(run.prompt), default_device())),
        model_(weights.sizes(run.heads)) {
    sampling_.end_token = tokenizer.find("<|endoftext|>");
    if (!default_device().is_meta) weights.load_into(model_);
  }
  Gpt& model() { return model_; }
  std::int64_t prompt_tokens() const { return prompt_.numel(); }
  /// Returns the number of new tokens.
  std::int64_t operator()(const std::function<void(std::int64_t)>& on_token) {
    return sample(model_, prompt_, sampling_, on_token);
  }

 private:
  Sampling sampling_;
  Tensor prompt_;
  Gpt model_;
};

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

void predict_text(const PublishedRun& run, const Options& o, const PublishedWeights& weights,
                  const data::BpeTokenizer& tokenizer) {
  memory::PredictOptions options{.min_steps = 1, .max_steps = 1, .recording = o.recorded_to()};
  if (o.memory_limit) options.limit = o.memory_limit;
  const memory::Prediction p = memory::predict(
      Device::parse(o.device),
      [&] {
        auto generation = std::make_shared<Generation>(run, weights, tokenizer);
        return [generation] { (*generation)([](std::int64_t) {}); };
      },
      options);
  fmt::print("generating {} tokens\n{}", run.sampling.tokens, memory::summarize(p));
  write_results(o, tokenizer.encode(run.prompt).numel(), run.sampling.tokens, std::nullopt, p.snapshot.statistics);
  write_memory(o, p.snapshot);
  if (p.out_of_memory) throw *p.out_of_memory;
}

}  // namespace

void generate_text(const PublishedRun& run, const Options& o) {
  using Clock = std::chrono::steady_clock;
  check<ValueError>(o.checkpoint.empty() && o.resume.empty(),
                    "--weights without --data trains nothing: leave out --checkpoint and --resume");
  const Device device = Device::parse(o.device);
  const data::BpeTokenizer tokenizer(run.tokenizer);
  const PublishedWeights weights(run.weights);
  const GptSizes sizes = weights.sizes(run.heads);
  weights.check_names(sizes);
  check<ValueError>(tokenizer.size() == sizes.vocabulary, "the tokenizer has ", tokenizer.size(),
                    " tokens, but the weights are for ", sizes.vocabulary);
  if (o.predict || device.is_meta) return predict_text(run, o, weights, tokenizer);
  memory::empty_cache(Device::cpu());  // what the file was read with
  std::optional<memory::Recording> recording;
  if (!o.recorded_to().empty()) recording.emplace(o.recorded_to(), "gpt", recording_options(o));
  manual_seed(o.seed);
  const DefaultDevice here(device);
  Generation generation(run, weights, tokenizer);
  memory::reset_peaks(device);  // that of loading, which takes a buffer on the CPU
  fmt::print("{}\n{}", nn::summary(generation.model()), run.prompt);
  std::fflush(stdout);
  const auto start = Clock::now();
  const std::int64_t tokens = generation([&](std::int64_t token) {
    fmt::print("{}", tokenizer.decode(from_vector(std::vector{token}, {1}, Device::cpu())));
    std::fflush(stdout);
  });
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("\n\n  {} tokens after a prompt of {}: {:.2f} s, {:.0f} tokens/s\n\n", tokens, generation.prompt_tokens(),
             seconds, static_cast<double>(tokens) / seconds);
  const memory::Snapshot memory = memory::snapshot(device);
  fmt::print("{}", memory::summarize(memory));
  write_results(o, generation.prompt_tokens(), tokens, seconds, memory.statistics);
  if (recording) recording->finish();
  write_memory(o, memory);
}

}  // namespace bytetape::examples
