#include "bytetape/data/tokenizer.h"

#include <set>

#include "bytetape/core/characters.h"
#include "bytetape/core/check.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/files/input.h"

namespace bytetape::data {
namespace {

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
    check<ValueError>(found != ids_.end(), "the tokenizer's text does not have '", printable(character),
                      "', which is at byte ", at);
    ids.push_back(found->second);
  });
  return from_vector(ids, {static_cast<std::int64_t>(ids.size())}, Device::cpu(), memory::Role::input);
}

const std::string* CharTokenizer::bytes_of(std::int64_t id) const {
  return id >= 0 && id < size() ? &characters_[static_cast<std::size_t>(id)] : nullptr;
}

}  // namespace bytetape::data
