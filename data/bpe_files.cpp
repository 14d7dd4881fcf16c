#include "bytetape/data/bpe_files.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "bytetape/core/error.h"

namespace bytetape::data {
namespace {

using nlohmann::json;

std::string utf8_of(unsigned code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// The byte that each character stands for.
const std::unordered_map<std::string, char>& bytes_of_characters() {
  static const auto all = [] {
    std::unordered_map<std::string, char> map;
    unsigned other = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      map.emplace(utf8_of(is_printable ? byte : other++), static_cast<char>(byte));
    }
    return map;
  }();
  return all;
}

/// Returns the bytes of a token, or nullopt if it has a character that stands for none. A special token's name has
/// plain characters alone, and is its bytes too.
std::optional<std::string> bytes_of(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const std::size_t n = static_cast<unsigned char>(token[0]) < 0x80 ? 1 : 2;
    const auto found = bytes_of_characters().find(std::string(token.substr(0, n)));
    if (found == bytes_of_characters().end()) return std::nullopt;
    bytes += found->second;
    token.remove_prefix(n);
  }
  return bytes;
}

json parsed(std::string_view text, const std::string& name) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    fail<FileError>(name, ": at byte ", e.byte, ": expected JSON");
  } catch (const json::out_of_range&) { fail<FileError>(name, ": a number is too large"); }
}

}  // namespace

TokenIds parse_vocab(std::string_view text, const std::string& name) {
  constexpr std::int64_t most_ids = std::int64_t{1} << 31;
  const json vocab = parsed(text, name);
  check<FileError>(vocab.is_object(), name, ": expected an object of tokens and their ids");
  TokenIds tokens;
  std::unordered_set<std::int64_t> ids;
  for (const auto& [token, value] : vocab.items()) {
    const auto bytes = bytes_of(token);
    check<FileError>(bytes.has_value(), name, ": the token \"", token, "\" has a character that stands for no byte");
    check<FileError>(value.is_number_unsigned() && value.get<std::uint64_t>() < most_ids, name, ": the id of \"", token,
                     "\" is no integer from 0 to 2^31 - 1");
    const auto id = value.get<std::int64_t>();
    check<FileError>(ids.insert(id).second, name, ": two tokens have the id ", id);
    tokens.emplace_back(*bytes, id);
  }
  return tokens;
}

Merges parse_merges(std::string_view text, const std::string& name) {
  Merges merges;
  std::size_t number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 && line.starts_with("#version")) continue;
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    check<FileError>(space != std::string_view::npos, name, ": line ", number, ": expected two tokens");
    const auto left = bytes_of(line.substr(0, space)), right = bytes_of(line.substr(space + 1));
    check<FileError>(left && right && !left->empty() && !right->empty(), name, ": line ", number,
                     ": expected two tokens, whose characters stand for bytes");
    merges.emplace_back(*left, *right);
  }
  return merges;
}

}  // namespace bytetape::data
