#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "bytetape/core/random.h"
#include "bytetape/nn/key_value_cache.h"

namespace bytetape::nn {

/// A model for generate(). Returns the logits (n, t, vocabulary) of the tokens that follow `tokens`, i64 (n, t), which
/// the cache does not hold yet. It may return (n, 1, vocabulary), those of each row's last token (last_tokens()).
using GenerateStep = std::function<Tensor(const Tensor& tokens, KeyValueCache& cache)>;

/// How generate() chooses tokens.
struct GenerateOptions {
  std::int64_t max_new_tokens = 20;
  double temperature = 1;  ///< logits are divided by it; 0: always the most likely token (greedy)
  std::int64_t top_k = 0;  ///< choose among the k most likely tokens; 0: among all
  /// Choose among the most likely tokens of all, or of top_k, whose probabilities add up to top_p or just exceed it.
  double top_p = 1;
  std::optional<std::int64_t> end_token = {};   ///< ends its row
  std::vector<std::int64_t> lengths = {};       ///< tokens of each prompt; default: all prompts have t
  Generator* generator = &default_generator();  ///< draws the tokens
  /// Called with the new token of each row, n of them, as soon as they are known. Each call waits for the device. Not
  /// called on a meta device.
  std::function<void(const std::vector<std::int64_t>& tokens)> on_tokens = {};
};

/// Generates tokens that continue prompts, i64 (n, t), on the cache's device:
///
///     nn::KeyValueCache cache({.layers = 12, .rows = 1, .heads = 12, .capacity = 1024, .head_size = 64});
///     const auto step = [&](const Tensor& tokens, nn::KeyValueCache& cache) { return gpt(tokens, cache); };
///     const Tensor tokens = nn::generate(step, cache, prompts, {.max_new_tokens = 100, .temperature = 0.8});
///
/// Empties the cache, computes the prompts in one step, then one token a step. Nothing is recorded on the tape. On a
/// GPU the steps for single tokens are captured (capture()), so the model must not read values on the host. Put the
/// model into evaluation mode before.
///
/// Prompts may have different `lengths`. Shorter ones are padded at their ends with any valid tokens, which change
/// nothing.
///
/// Returns the new tokens, i64 (n, max_new_tokens). After its end token, a row has end tokens only.
/// Throws ValueError, DTypeError, ShapeError or DeviceError before any work if the arguments do not fit. The longest
/// prompt and all new tokens but the last must fit into the cache.
/// Throws ShapeError if the model returns other shapes. Exceptions from the model pass through.
Tensor generate(const GenerateStep& step, KeyValueCache& cache, const Tensor& prompts,
                const GenerateOptions& options = {});

}  // namespace bytetape::nn
