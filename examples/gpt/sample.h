#pragma once
#include <bytetape/bytetape.h>

#include "examples/gpt/model.h"

namespace bytetape::examples {

/// How the next token is chosen.
struct Sampling {
  std::int64_t tokens = 300;  // that are added
  double temperature = 0.8;   // 0: the most likely token
  std::int64_t top_k = 0;     // choose among the most likely ones only; 0: among all
};

/// Returns the prompt's tokens, i64 (n), with n at least 1, and the tokens that the model adds to them. The model sees
/// at most its context.
Tensor sample(Gpt& model, const Tensor& prompt, const Sampling& sampling);

}  // namespace bytetape::examples
