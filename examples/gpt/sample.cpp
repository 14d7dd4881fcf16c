#include "examples/gpt/sample.h"

#include <algorithm>

namespace bytetape::examples {
namespace {

/// Returns the next token, i64 (1), for its logits (vocabulary).
Tensor choose(const Tensor& logits, const Sampling& sampling) {
  if (sampling.temperature == 0) return argmax(logits, 0, true);
  const Tensor scaled = logits / sampling.temperature;
  if (sampling.top_k == 0) return multinomial(softmax(scaled, 0), 1);
  const auto [values, indices] = topk(scaled, std::min(sampling.top_k, logits.numel()));
  return index_select(indices, 0, multinomial(softmax(values, 0), 1));
}

}  // namespace

Tensor sample(Gpt& model, const Tensor& prompt, const Sampling& sampling) {
  const NoGrad no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const std::int64_t context = model.sizes.context;
  Tensor tokens = prompt;
  for (std::int64_t i = 0; i < sampling.tokens; ++i) {
    const std::int64_t n = std::min(tokens.numel(), context);
    const Tensor logits = model(view(narrow(tokens, 0, tokens.numel() - n, n), {1, n}));
    tokens = cat({tokens, choose(select(select(logits, 0, 0), 0, n - 1), sampling)});
  }
  model.train(was_training);
  return tokens;
}

}  // namespace bytetape::examples
