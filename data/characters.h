#pragma once
#include <string>
#include <string_view>

namespace bytetape::data {

/// Returns the character at the start of `text`, which is not empty: a UTF-8 sequence, or one byte that begins no
/// complete sequence.
std::string_view first_character(std::string_view text);

/// Returns text for a message. Control characters, and bytes that are in no UTF-8 sequence, become hexadecimal escapes.
std::string escaped(std::string_view text);

}  // namespace bytetape::data
