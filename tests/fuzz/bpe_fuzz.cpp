#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bytetape/core/error.h"
#include "bytetape/data/bpe.h"

/// Any bytes, vocab.json and merges.txt with a zero between them, are either a tokenizer or a FileError. A tokenizer
/// gives back the text that it encoded.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bytetape;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = bytes.find('\0');
  const std::string_view vocab = bytes.substr(0, zero),
                         merges = zero == std::string_view::npos ? std::string_view() : bytes.substr(zero + 1);
  try {
    const data::BpeTokenizer tokenizer(vocab, merges);
    if (tokenizer.decode(tokenizer.encode(bytes)) != bytes) std::abort();
  } catch (const FileError&) {}
  return 0;
}
