#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bytetape::data {

/// A token's bytes and its id.
using TokenIds = std::vector<std::pair<std::string, std::int64_t>>;
/// The bytes of the two tokens of each merge, the first merge first.
using Merges = std::vector<std::pair<std::string, std::string>>;

/// Reads vocab.json: a JSON object of tokens and their ids. In a token each byte is a character: itself if it is
/// printable, else one from U+0100 on, in order.
/// Throws FileError, naming `name` and the token or the byte, if the text is damaged.
TokenIds parse_vocab(std::string_view json, const std::string& name);

/// Reads merges.txt: a line for each merge, with two tokens that a space separates. A first line "#version..." is
/// skipped.
/// Throws FileError, naming `name` and the line, if the text is damaged.
Merges parse_merges(std::string_view text, const std::string& name);

}  // namespace bytetape::data
