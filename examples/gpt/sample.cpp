#include "examples/gpt/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace bytetape::examples {
namespace {

/// Returns texts as one batch, padded at their ends.
Tensor batch_of(const std::vector<Tensor>& texts, std::int64_t longest) {
  std::vector<Tensor> rows;
  for (const Tensor& text : texts) rows.push_back(pad(text, {0, longest - text.numel()}));
  return stack(rows);
}

}  // namespace

void check_prompt(const Tensor& prompt, std::int64_t context) {
  check<ValueError>(prompt.numel() > 0 && prompt.numel() <= context, "expected a prompt of 1 to ", context,
                    " tokens, the model's context, got ", prompt.numel());
}

std::vector<Tensor> encode(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts) {
  std::vector<Tensor> all;
  for (const std::string& prompt : prompts) all.push_back(to(tokenizer.encode(prompt), default_device()));
  return all;
}

std::int64_t sample(Gpt& model, const std::vector<Tensor>& prompts, const Sampling& sampling, const OnToken& on_token) {
  const std::int64_t context = model.sizes.context, rows = std::ssize(prompts);
  for (const Tensor& prompt : prompts) check_prompt(prompt, context);
  const NoGrad no_grad;
  const Autocast autocast(sampling.computed);
  const bool was_training = model.is_training();
  model.eval();
  nn::KeyValueCache cache(model.cache_sizes(rows, sampling.computed));
  const auto step = [&](const Tensor& tokens, nn::KeyValueCache& cache) {
    const Tensor logits = model(tokens, cache);
    return narrow(logits, 2, 0, sampling.vocabulary.value_or(logits.size(2)));
  };
  std::int64_t added = 0, shown = 0;
  std::vector<bool> has_ended(prompts.size());
  const auto all_ended = [&] { return std::ranges::find(has_ended, false) == has_ended.end(); };
  nn::GenerateOptions options{.temperature = sampling.temperature,
                              .top_k = sampling.top_k,
                              .top_p = sampling.top_p,
                              .end_token = sampling.end_token};
  options.on_tokens = [&](const std::vector<std::int64_t>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == sampling.end_token) has_ended[i] = true;
      if (has_ended[i]) continue;
      ++shown;
      on_token(i, tokens[i]);
    }
  };
  std::vector<Tensor> texts = prompts;
  while (added < sampling.tokens && !all_ended()) {
    const std::int64_t half = std::max<std::int64_t>(context / 2, 1);
    options.lengths.clear();
    for (Tensor& text : texts) {
      if (text.numel() > context) text = narrow(text, 0, text.numel() - half, half);
      options.lengths.push_back(text.numel());
    }
    const auto [shortest, longest] = std::ranges::minmax(options.lengths);
    if (shortest == longest) options.lengths.clear();
    options.max_new_tokens = std::min(sampling.tokens - added, context + 1 - longest);
    const Tensor next = nn::generate(step, cache, batch_of(texts, longest), options);
    for (std::int64_t i = 0; i < rows; ++i) {
      Tensor& text = texts[static_cast<std::size_t>(i)];
      text = cat({text, select(next, 0, i)});
    }
    added += options.max_new_tokens;
  }
  model.train(was_training);
  return cache.sizes().device.is_meta ? added * rows : shown;
}

SamplePrinter::SamplePrinter(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                             std::string title)
    : tokenizer_(tokenizer), texts_(prompts), title_(std::move(title)) {
  fmt::print("{}{}", title_, texts_.at(0));
  std::fflush(stdout);
}

void SamplePrinter::operator()(std::size_t i, std::int64_t token) {
  const std::string text = tokenizer_.decode(from_vector(std::vector{token}, {1}, Device::cpu()));
  if (i > 0) {
    texts_[i] += text;
    return;
  }
  fmt::print("{}", text);
  std::fflush(stdout);
}

void SamplePrinter::finish() const {
  fmt::print("\n");
  for (std::size_t i = 1; i < texts_.size(); ++i) fmt::print("{}{}\n", title_, texts_[i]);
}

}  // namespace bytetape::examples
