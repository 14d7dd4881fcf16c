#include "bytetape/data/bpe.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <limits>
#include <queue>
#include <tuple>

#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/files/input.h"
#include "bytetape/data/bpe_files.h"
#include "bytetape/data/text.h"

namespace bytetape::data {
namespace bpe {

// GPT-2's pattern. Its \s is Unicode's white space, which is spelled out because PCRE2's \s has one character more.
#define SPACES R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
constexpr const char* pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{L}\p{N})" SPACES "]+|[" SPACES
                                "]+(?![^" SPACES "])|[" SPACES "]+";
#undef SPACES

/// Splits text into words.
class Splitter {
 public:
  Splitter() {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr));
    check<Error>(code_ != nullptr, "PCRE2 refuses GPT-2's pattern at ", at, ", with error ", error);
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // if there is no JIT, the interpreter runs
  }

  /// Calls f(word) for each word. Bytes that the pattern leaves out, which are not valid UTF-8, are words too.
  template <class F>
  void for_each_word(std::string_view text, const F& f) const {
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free);
    check<Error>(match != nullptr, "PCRE2 has no memory");
    std::size_t at = 0;
    while (at < text.size()) {
      const int found =
          pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, 0, match.get(), nullptr);
      check<Error>(found > 0 || found == PCRE2_ERROR_NOMATCH, "PCRE2 fails at byte ", at, ", with error ", found);
      const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(match.get());
      const std::size_t begin = found > 0 ? ends[0] : text.size(), end = found > 0 ? ends[1] : text.size();
      if (begin > at) f(text.substr(at, begin - at));
      if (end > begin) f(text.substr(begin, end - begin));
      at = end;
    }
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

constexpr std::int64_t none = -1;

/// A pair of tokens that may be merged.
struct Merge {
  std::int64_t rank, id;  // of the result
};

}  // namespace bpe

using bpe::Merge, bpe::none;

struct BpeTokenizer::Tables {
  bpe::Splitter splitter;
  std::unordered_map<std::string, std::int64_t> ids;
  std::vector<std::string> bytes;  // by id
  std::vector<bool> is_id;         // whether a token has the id
  std::array<std::int64_t, 256> id_of_byte;
  std::unordered_map<std::uint64_t, Merge> merges;  // by the ids of both tokens

  Tables(std::string_view vocab, const std::string& vocab_name, std::string_view merges,
         const std::string& merges_name);
  const Merge* merge_of(std::int64_t left, std::int64_t right) const {
    const auto found = merges.find(key(left, right));
    return found == merges.end() ? nullptr : &found->second;
  }
  std::vector<std::int64_t> encode_word(std::string_view word) const;

 private:
  static std::uint64_t key(std::int64_t left, std::int64_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  }
};

BpeTokenizer::Tables::Tables(std::string_view vocab, const std::string& vocab_name, std::string_view merge_lines,
                             const std::string& merges_name) {
  const TokenIds tokens = parse_vocab(vocab, vocab_name);
  std::int64_t largest = none;
  for (const auto& [token, id] : tokens) largest = std::max(largest, id);
  // A damaged id must not make a table of gigabytes.
  check<FileError>(largest < 2 * static_cast<std::int64_t>(tokens.size()) + 1024, vocab_name, ": the largest id is ",
                   largest, ", but there are only ", tokens.size(), " tokens");
  bytes.resize(static_cast<std::size_t>(largest + 1));
  is_id.resize(bytes.size());
  for (const auto& [token, id] : tokens) {
    ids.emplace(token, id);
    bytes[static_cast<std::size_t>(id)] = token;
    is_id[static_cast<std::size_t>(id)] = true;
  }
  const auto id_of = [&](const std::string& token, const auto&... place) {
    const auto found = ids.find(token);
    check<FileError>(found != ids.end(), place..., vocab_name, " has no token for the bytes '", printable(token), "'");
    return found->second;
  };
  for (int byte = 0; byte < 256; ++byte)
    id_of_byte[static_cast<std::size_t>(byte)] = id_of(std::string(1, static_cast<char>(byte)));
  std::int64_t rank = 0;
  for (const auto& [left, right] : parse_merges(merge_lines, merges_name)) {
    ++rank;
    const auto id = [&](const std::string& token) { return id_of(token, merges_name, ": merge ", rank, ": "); };
    merges.emplace(key(id(left), id(right)), Merge{rank, id(left + right)});
  }
}

// The tokens of a word are a linked list. The queue has pairs of neighbours that may be merged, the first merge of the
// list first, and of equal ones the leftmost. A pair whose tokens have been merged otherwise is skipped.
std::vector<std::int64_t> BpeTokenizer::Tables::encode_word(std::string_view word) const {
  struct Part {
    std::int64_t id, previous, next;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    parts.push_back({id_of_byte[static_cast<unsigned char>(word[i])], at - 1, i + 1 < word.size() ? at + 1 : none});
  }
  const auto part = [&](std::int64_t i) -> Part& { return parts[static_cast<std::size_t>(i)]; };
  using Candidate = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;  // rank, place, both ids
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::int64_t left) {
    if (left == none || part(left).next == none) return;
    const std::int64_t right_id = part(part(left).next).id;
    if (const Merge* merge = merge_of(part(left).id, right_id))
      queue.emplace(merge->rank, left, part(left).id, right_id);
  };
  for (std::int64_t i = 0; i + 1 < static_cast<std::int64_t>(parts.size()); ++i) offer(i);
  while (!queue.empty()) {
    const auto [rank, left, left_id, right_id] = queue.top();
    queue.pop();  // before others are offered, which may come first
    Part& l = part(left);
    if (l.id != left_id || l.next == none || part(l.next).id != right_id) continue;
    Part& r = part(l.next);
    l.id = merge_of(left_id, right_id)->id;
    l.next = r.next;
    r.id = none;  // no pair has it
    if (l.next != none) part(l.next).previous = left;
    offer(l.previous);
    offer(left);
  }
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = parts.empty() ? none : 0; i != none; i = part(i).next) tokens.push_back(part(i).id);
  return tokens;
}

BpeTokenizer::BpeTokenizer(const std::filesystem::path& dir) {
  const std::filesystem::path vocab = dir / "vocab.json", merges = dir / "merges.txt";
  const std::string vocab_text = read_text(vocab), merges_text = read_text(merges);
  tables_ = std::make_unique<Tables>(vocab_text, vocab.string(), merges_text, merges.string());
}
BpeTokenizer::BpeTokenizer(std::string_view vocab, std::string_view merges)
    : tables_(std::make_unique<Tables>(vocab, "vocab.json", merges, "merges.txt")) {}
BpeTokenizer::~BpeTokenizer() = default;

std::int64_t BpeTokenizer::size() const { return static_cast<std::int64_t>(tables_->bytes.size()); }

Tensor BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  std::unordered_map<std::string_view, std::vector<std::int64_t>> known;  // most words come several times
  tables_->splitter.for_each_word(text, [&](std::string_view word) {
    auto found = known.find(word);
    if (found == known.end()) found = known.emplace(word, tables_->encode_word(word)).first;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
  });
  return from_vector(ids, {static_cast<std::int64_t>(ids.size())}, Device::cpu(), memory::Role::input);
}

std::optional<std::int64_t> BpeTokenizer::find(const std::string& bytes) const {
  const auto found = tables_->ids.find(bytes);
  return found == tables_->ids.end() ? std::nullopt : std::optional(found->second);
}

const std::string* BpeTokenizer::bytes_of(std::int64_t id) const {
  const auto at = static_cast<std::size_t>(id);
  return at < tables_->bytes.size() && tables_->is_id[at] ? &tables_->bytes[at] : nullptr;
}

}  // namespace bytetape::data
