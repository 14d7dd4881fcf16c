#include "bytetape/data/characters.h"

#include <algorithm>

namespace bytetape::data {
namespace {

/// Returns the bytes of the UTF-8 sequence that begins with `first`; 1 for a byte that begins none.
std::size_t sequence_length(unsigned char first) {
  return first >= 0xF0 && first < 0xF8 ? 4 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xC2 && first < 0xE0 ? 2 : 1;
}

/// Returns the hexadecimal escape of a byte.
std::string hex(unsigned char byte) {
  constexpr const char* digits = "0123456789abcdef";
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

}  // namespace

std::string_view first_character(std::string_view text) {
  const std::string_view character = text.substr(0, sequence_length(static_cast<unsigned char>(text[0])));
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  const bool is_whole = character.size() == sequence_length(static_cast<unsigned char>(text[0])) &&
                        std::all_of(character.begin() + 1, character.end(), continues);
  return is_whole ? character : text.substr(0, 1);
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    const auto first = static_cast<unsigned char>(character[0]);
    const bool is_printable = character.size() > 1 || (first >= 0x20 && first < 0x7F);
    out += is_printable ? std::string(character) : hex(first);
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace bytetape::data
