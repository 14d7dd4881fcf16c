#include "examples/gpt/text.h"

#include "examples/gpt/sample.h"

namespace bytetape::examples {

std::filesystem::path find_text(const std::string& name) {
  const auto path = data::find_text(name.empty() ? default_text : name);
  check<FileError>(path || name.empty(), "there is no text ", name,
                   ": expected a text file, or the name of one in $BYTETAPE_DATA/text or ~/.cache/bytetape/text");
  check<FileError>(path.has_value(), "there is no text ", default_text,
                   ": download it with scripts/download_text, or give a text file with --data");
  return *path;
}

std::string read_text(const std::filesystem::path& path) {
  std::string text = data::read_text(path);
  check<FileError>(!text.empty(), path.string(), ": the text is empty");
  return text;
}

std::string default_prompt(const data::Tokenizer& tokenizer, const std::string& text, const Tensor& tokens) {
  return text.find('\n') == std::string::npos ? tokenizer.decode(narrow(tokens, 0, 0, 1)) : "\n";
}

void check_prompts(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts, std::int64_t context) {
  for (const std::string& prompt : prompts) try {
      check_prompt(tokenizer.encode(prompt), context);
    } catch (const ValueError& e) { fail<ValueError>("--prompt: ", e.what()); }
}

}  // namespace bytetape::examples
