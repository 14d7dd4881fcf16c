#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::data {

/// Turns text into token ids and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Returns the number of ids: one more than the largest.
  virtual std::int64_t size() const = 0;
  /// Returns the tokens of `text`, i64 (n) on the CPU, with the role `input`. May be called from several threads.
  virtual Tensor encode(std::string_view text) const = 0;
  /// Returns the text of tokens, i64 (n). decode(encode(text)) is `text`, for any bytes that encode() takes.
  /// Throws ValueError if a token is not an id.
  /// Throws DTypeError or ShapeError if the tokens are not i64 (n).
  std::string decode(const Tensor& tokens) const;

 protected:
  /// Returns the bytes of a token, or null if there is no such id.
  virtual const std::string* bytes_of(std::int64_t id) const = 0;
};

/// Numbers the characters of a text. A character is a UTF-8 sequence; a byte that begins no complete sequence is a
/// character of its own.
class CharTokenizer final : public Tokenizer {
 public:
  /// Numbers the characters of `text` from 0, in the order of their bytes.
  explicit CharTokenizer(std::string_view text);

  std::int64_t size() const override { return static_cast<std::int64_t>(characters_.size()); }
  /// Throws ValueError, naming the character and its place, if the tokenizer's text does not have it.
  Tensor encode(std::string_view text) const override;

 protected:
  const std::string* bytes_of(std::int64_t id) const override;

 private:
  std::vector<std::string> characters_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace bytetape::data
