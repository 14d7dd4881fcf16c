#include "bytetape/data/tokenizer.h"

#include <algorithm>
#include <set>

#include "bytetape/core/check.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"

namespace bytetape::data {
namespace {

/// Returns the bytes of the UTF-8 sequence that begins with `first`; 1 for a byte that begins none.
std::size_t sequence_length(unsigned char first) {
  return first >= 0xF0 && first < 0xF8 ? 4 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xC2 && first < 0xE0 ? 2 : 1;
}

/// Returns the character at the start of `text`, which is not empty.
std::string_view first_character(std::string_view text) {
  const std::string_view character = text.substr(0, sequence_length(static_cast<unsigned char>(text[0])));
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  const bool is_whole = character.size() == sequence_length(static_cast<unsigned char>(text[0])) &&
                        std::all_of(character.begin() + 1, character.end(), continues);
  return is_whole ? character : text.substr(0, 1);
}

/// Calls f(character, offset in bytes) for each character of `text`.
template <class F>
void for_each_character(std::string_view text, const F& f) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = first_character(text.substr(at));
    f(character, at);
    at += character.size();
  }
}

}  // namespace

std::string Tokenizer::decode(const Tensor& tokens) const {
  check<DTypeError>(tokens.dtype() == DType::i64, "expected tokens in i64, got ", describe(tokens));
  check(tokens.rank() == 1, "expected tokens (n), got ", describe(tokens));
  std::string text;
  for (const std::int64_t id : tokens.to_vector<std::int64_t>()) {
    const std::string* const bytes = bytes_of(id);
    check<ValueError>(bytes != nullptr, "token ", id, " is none of the tokenizer's, which are below ", size());
    text += *bytes;
  }
  return text;
}

CharTokenizer::CharTokenizer(std::string_view text) {
  std::set<std::string_view> found;
  for_each_character(text, [&](std::string_view character, std::size_t) { found.insert(character); });
  for (const std::string_view character : found) {
    ids_.emplace(character, size());
    characters_.emplace_back(character);
  }
}

Tensor CharTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  for_each_character(text, [&](std::string_view character, std::size_t at) {
    const auto found = ids_.find(std::string(character));
    check<ValueError>(found != ids_.end(), "the text has '", character, "' at byte ", at,
                      ", which the tokenizer's text does not have");
    ids.push_back(found->second);
  });
  return from_vector(ids, {static_cast<std::int64_t>(ids.size())}, Device::cpu(), memory::Role::input);
}

const std::string* CharTokenizer::bytes_of(std::int64_t id) const {
  return id >= 0 && id < size() ? &characters_[static_cast<std::size_t>(id)] : nullptr;
}

}  // namespace bytetape::data
