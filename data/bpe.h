#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "bytetape/data/tokenizer.h"

namespace bytetape::data {

/// GPT-2's tokenizer: byte-level byte-pair encoding (Radford et al., "Language models are unsupervised multitask
/// learners", 2019; Sennrich et al., "Neural machine translation of rare words with subword units", 2016).
///
/// Text is split into words, with the space before each, and the bytes of a word are merged pair by pair, in the order
/// of the list of merges. Tokens are those of Hugging Face's `GPT2Tokenizer` and of OpenAI's `tiktoken`. The text of a
/// special token, such as "<|endoftext|>", is encoded as ordinary text; find() returns its id. Bytes that are not valid
/// UTF-8 are words of their own.
class BpeTokenizer final : public Tokenizer {
 public:
  /// Reads vocab.json and merges.txt, the files of Hugging Face's GPT-2, from a folder.
  /// Throws FileError, naming the file and the place, if a file cannot be read, is damaged, or does not fit the other.
  explicit BpeTokenizer(const std::filesystem::path& dir);
  /// As above, from the contents of both files.
  BpeTokenizer(std::string_view vocab, std::string_view merges);
  ~BpeTokenizer() override;

  std::int64_t size() const override;
  Tensor encode(std::string_view text) const override;
  /// Returns the id of a token with these bytes, if there is one.
  std::optional<std::int64_t> find(const std::string& bytes) const;

 protected:
  const std::string* bytes_of(std::int64_t id) const override;

 private:
  struct Tables;
  std::unique_ptr<const Tables> tables_;
};

}  // namespace bytetape::data
