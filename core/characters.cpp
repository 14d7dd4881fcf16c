#include "bytetape/core/characters.h"

#include <algorithm>
#include <cstddef>

namespace bytetape {
namespace {

/// Returns the bytes of the UTF-8 sequence that begins with `first`; 1 for a byte that begins none.
std::size_t sequence_length(unsigned char first) {
  return first >= 0xF0 && first < 0xF8 ? 4 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xC2 && first < 0xE0 ? 2 : 1;
}

}  // namespace

std::string_view first_character(std::string_view text) {
  const std::string_view character = text.substr(0, sequence_length(static_cast<unsigned char>(text[0])));
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  const bool is_whole = character.size() == sequence_length(static_cast<unsigned char>(text[0])) &&
                        std::all_of(character.begin() + 1, character.end(), continues);
  return is_whole ? character : text.substr(0, 1);
}

}  // namespace bytetape
