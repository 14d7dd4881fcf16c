#pragma once
#include <cstdint>
#include <optional>

#include "examples/gpt/weights.h"

namespace bytetape::examples {

/// Checks all tensors of published weights, and returns the sizes of their model. The number of heads is `n_head` of
/// the config.json beside the file, as Hugging Face publishes it, else `heads`. Without both, each head has 64 columns.
/// This assumption is printed.
/// Throws what check_tensors() throws.
/// Throws FileError if config.json is damaged, or has no `n_head` and `heads` is not given.
/// Throws ValueError if `n_head` differs from `heads`, or if the heads do not divide the width.
GptSizes check_published(const PublishedWeights& weights, std::optional<std::int64_t> heads);

/// Throws ValueError if published weights are for fewer tokens than the tokenizer has. They may be for more: padding.
void check_vocabulary(const data::Tokenizer& tokenizer, const GptSizes& sizes);

}  // namespace bytetape::examples
