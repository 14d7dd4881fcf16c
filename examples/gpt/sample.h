#pragma once
#include <bytetape/bytetape.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "examples/gpt/model.h"

namespace bytetape::examples {

/// How the next token is chosen.
struct Sampling {
  std::int64_t tokens = 300;                    // that are added to each prompt
  double temperature = 0.8;                     // 0: the most likely token
  std::int64_t top_k = 0;                       // choose among the most likely ones only; 0: among all
  double top_p = 1;                             // choose among the most likely ones of this probability
  std::optional<std::int64_t> vocabulary = {};  // choose among the first ones only, those of the tokenizer
  std::optional<std::int64_t> end_token = {};   // ends the text
  DType computed = DType::f32;                  // bf16: under Autocast
};

/// Throws ValueError if a prompt is empty or longer than the context.
void check_prompt(const Tensor& prompt, std::int64_t context);

/// Returns the tokens of each prompt on the default device.
std::vector<Tensor> encode(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts);

/// Is called with each new token of prompt number i.
using OnToken = std::function<void(std::size_t i, std::int64_t token)>;

/// Generates tokens that continue prompts, each i64 (n) on the default device, in one batch. Passes each to `on_token`,
/// if the device has data. When the model's context is full, a text goes on from its last half. Returns the number of
/// new tokens of all prompts.
/// Throws what check_prompt() throws.
std::int64_t sample(Gpt& model, const std::vector<Tensor>& prompts, const Sampling& sampling, const OnToken& on_token);

/// Prints the samples of prompts, each below the title. The first is printed token by token, as soon as they are known.
class SamplePrinter {
 public:
  /// Prints the title and the first prompt.
  SamplePrinter(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts, std::string title);
  void operator()(std::size_t i, std::int64_t token);
  /// Prints the rest.
  void finish() const;

 private:
  const data::Tokenizer& tokenizer_;
  std::vector<std::string> texts_;
  std::string title_;
};

}  // namespace bytetape::examples
