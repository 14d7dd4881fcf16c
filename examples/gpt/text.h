#pragma once
#include <bytetape/bytetape.h>

#include <filesystem>
#include <string>
#include <vector>

namespace bytetape::examples {

inline constexpr const char* default_text = "tinyshakespeare.txt";

/// Returns the path of the text that `name` stands for, or of the default text if it is empty.
/// Throws FileError if there is no text. The message says how to get one.
std::filesystem::path find_text(const std::string& name);

/// Reads a text file.
/// Throws FileError if it cannot be read or is empty.
std::string read_text(const std::filesystem::path& path);

/// Returns the prompt of a sample if none is given: a line break if the text has one, else its first token.
/// `tokens` are those of the text.
std::string default_prompt(const data::Tokenizer& tokenizer, const std::string& text, const Tensor& tokens);

/// Throws ValueError, naming --prompt, if the tokenizer or the context cannot take a prompt.
void check_prompts(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts, std::int64_t context);

}  // namespace bytetape::examples
