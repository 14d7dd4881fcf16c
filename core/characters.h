#pragma once
#include <string_view>

namespace bytetape {

/// Returns the character at the start of `text`, which is not empty: a UTF-8 sequence, or one byte that begins no
/// complete sequence.
std::string_view first_character(std::string_view text);

}  // namespace bytetape
