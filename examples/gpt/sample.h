#pragma once
#include <bytetape/bytetape.h>

#include <functional>
#include <optional>

#include "examples/gpt/model.h"

namespace bytetape::examples {

/// How the next token is chosen.
struct Sampling {
  std::int64_t tokens = 300;                   // that are added
  double temperature = 0.8;                    // 0: the most likely token
  std::int64_t top_k = 0;                      // choose among the most likely ones only; 0: among all
  double top_p = 1;                            // choose among the most likely ones of this probability
  std::optional<std::int64_t> end_token = {};  // ends the text
  DType computed = DType::f32;                 // bf16: under Autocast
};

/// Throws ValueError if a prompt is empty or longer than the context.
void check_prompt(const Tensor& prompt, std::int64_t context);

/// Generates tokens that continue a prompt, i64 (n) on the default device, and passes each to `on_token`, if the device
/// has data. When the model's context is full, goes on from its last half. Returns the number of new tokens.
/// Throws what check_prompt() throws.
std::int64_t sample(Gpt& model, const Tensor& prompt, const Sampling& sampling,
                    const std::function<void(std::int64_t token)>& on_token);

}  // namespace bytetape::examples
