#include "examples/gpt/sample.h"

#include <algorithm>

namespace bytetape::examples {

void check_prompt(const Tensor& prompt, std::int64_t context) {
  check<ValueError>(prompt.numel() > 0 && prompt.numel() <= context, "expected a prompt of 1 to ", context,
                    " tokens, the model's context, got ", prompt.numel());
}

std::int64_t sample(Gpt& model, const Tensor& prompt, const Sampling& sampling,
                    const std::function<void(std::int64_t)>& on_token) {
  const std::int64_t context = model.sizes.context;
  check_prompt(prompt, context);
  const NoGrad no_grad;
  const Autocast autocast(sampling.computed);
  const bool was_training = model.is_training();
  model.eval();
  nn::KeyValueCache cache(model.cache_sizes(1, sampling.computed));
  const auto step = [&](const Tensor& tokens, nn::KeyValueCache& cache) { return model(tokens, cache); };
  std::int64_t added = 0, shown = 0;
  bool has_ended = false;
  nn::GenerateOptions options{.temperature = sampling.temperature,
                              .top_k = sampling.top_k,
                              .top_p = sampling.top_p,
                              .end_token = sampling.end_token};
  options.on_tokens = [&](const std::vector<std::int64_t>& tokens) {
    has_ended = has_ended || tokens[0] == sampling.end_token;
    if (has_ended) return;
    ++shown;
    on_token(tokens[0]);
  };
  Tensor text = prompt;
  while (added < sampling.tokens && !has_ended) {
    const std::int64_t half = std::max<std::int64_t>(context / 2, 1);
    if (text.numel() > context) text = narrow(text, 0, text.numel() - half, half);
    options.max_new_tokens = std::min(sampling.tokens - added, context + 1 - text.numel());
    text = cat({text, flatten(nn::generate(step, cache, unsqueeze(text, 0), options))});
    added += options.max_new_tokens;
  }
  model.train(was_training);
  return prompt.device().is_meta ? added : shown;
}

}  // namespace bytetape::examples
