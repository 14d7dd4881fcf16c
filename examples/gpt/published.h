#pragma once
#include <optional>
#include <string>
#include <vector>

#include "examples/command_line.h"
#include "examples/gpt/sample.h"

namespace bytetape::examples {

/// Prompts for published weights.
struct PublishedRun {
  std::string weights, tokenizer;     // a file and a folder
  std::optional<std::int64_t> heads;  // default: see check_published()
  std::vector<std::string> prompts;
  Sampling sampling;
};

/// Generates text with published weights, or predicts the memory of that, and reports it as the options say.
void generate_text(const PublishedRun& run, const Options& o);

}  // namespace bytetape::examples
