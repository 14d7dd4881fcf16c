#include "bytetape/data/bpe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

#include "bytetape/bytetape.h"
#include "bytetape/data/bpe_files.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_dir.h"
#include "tests/support/threads.h"

namespace bytetape::data {
namespace {

const BpeTokenizer& tokenizer() {
  static const BpeTokenizer of_pages(test::source_dir() / "tests/golden/bpe");
  return of_pages;
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(BpeTokenizer, GivesHuggingFacesTokens) {
  std::istringstream file(read_text(test::source_dir() / "tests/golden/bpe.csv.gz"));
  std::string line;
  int lines = 0;
  for (std::getline(file, line); std::getline(file, line); ++lines) {
    std::istringstream cells(line);
    std::string cell;
    std::getline(cells, cell, ',');
    const std::string text = from_hex(cell.substr(1));
    std::vector<std::int64_t> expected;
    while (std::getline(cells, cell, ',')) expected.push_back(std::stoll(cell));
    const Tensor tokens = tokenizer().encode(text);
    ASSERT_EQ(tokens.to_vector<std::int64_t>(), expected) << text;
    ASSERT_EQ(tokenizer().decode(tokens), text);
  }
  EXPECT_EQ(lines, 10000);
}

TEST(BpeTokenizer, KeepsAnyBytes) {
  std::string bytes = "word";
  for (int b = 255; b >= 0; --b) bytes += static_cast<char>(b);
  bytes += "\xE2\x82 \xF0\x9F\x98zz\xC3";
  EXPECT_EQ(tokenizer().decode(tokenizer().encode(bytes)), bytes);
  const std::string long_word(100000, 'a'), spaces(100000, ' ');
  EXPECT_EQ(tokenizer().decode(tokenizer().encode(long_word)), long_word);
  EXPECT_EQ(tokenizer().decode(tokenizer().encode(spaces)), spaces);
  EXPECT_EQ(tokenizer().encode("").numel(), 0);
}

/// The files of a tokenizer with all bytes and these tokens and merges besides.
struct Files {
  std::string vocab = "{", merges;
  explicit Files(const std::vector<std::string>& tokens = {}, const std::string& lines = "")
      : merges("#version: 0.2\n" + lines) {
    std::ifstream file(test::source_dir() / "tests/golden/bpe/vocab.json");
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    auto add = [&, id = 0](const std::string& token) mutable {
      vocab += (id ? "," : "") + nlohmann::json(token).dump() + ":" + std::to_string(id);
      ++id;
    };
    const nlohmann::json of_pages = nlohmann::json::parse(all);
    for (const auto& [token, place] : of_pages.items())
      if (place.get<int>() < 256) add(token);
    for (const std::string& token : tokens) add(token);
    vocab += "}";
  }
  BpeTokenizer tokenizer() const { return {vocab, merges}; }
};

using Parts = std::vector<std::string>;
auto parts_by(const BpeTokenizer& t) {
  return [&t](const std::string& text) {
    Parts parts;
    for (const std::int64_t id : t.encode(text).to_vector<std::int64_t>())
      parts.push_back(t.decode(from_vector(std::vector{id})));
    return parts;
  };
}

/// The first merge of the list is made first, wherever it is in the word, and of equal pairs the leftmost.
TEST(BpeTokenizer, MergesInTheOrderOfTheList) {
  const BpeTokenizer t = Files({"bc", "ab", "aa", "abc"}, "b c\na b\na a\nab c\n").tokenizer();
  const auto tokens = parts_by(t);
  EXPECT_EQ(tokens("abc"), (Parts{"a", "bc"}));
  EXPECT_EQ(tokens("aab"), (Parts{"a", "ab"}));
  EXPECT_EQ(tokens("aaa"), (Parts{"aa", "a"}));
  EXPECT_EQ(tokens("aaaa"), (Parts{"aa", "aa"}));
  EXPECT_EQ(tokens("ab c"), (Parts{"ab", " ", "c"})) << "words are merged alone";
}

TEST(BpeTokenizer, MayMergeAResultBeforeOtherPairs) {
  const BpeTokenizer t = Files({"ab", "abc", "cd"}, "ab c\na b\nc d\n").tokenizer();
  EXPECT_EQ(parts_by(t)("abcd"), (Parts{"abc", "d"}));
}

TEST(BpeTokenizer, NeedsNoNewlineAfterTheLastMerge) {
  for (const char* lines : {"a b\nc d", "a b\r\nc d\r\n", "a b\n\nc d\n"}) {
    const BpeTokenizer t = Files({"ab", "cd"}, lines).tokenizer();
    EXPECT_EQ(parts_by(t)("abcd"), (Parts{"ab", "cd"})) << lines;
  }
}

TEST(BpeTokenizer, KnowsSpecialTokensByName) {
  const BpeTokenizer t = Files({"<|endoftext|>"}).tokenizer();
  EXPECT_EQ(t.find("<|endoftext|>"), 256);
  EXPECT_EQ(t.find("no such token"), std::nullopt);
  EXPECT_EQ(t.size(), 257);
  EXPECT_EQ(t.decode(from_vector(std::vector<std::int64_t>{256})), "<|endoftext|>");
  EXPECT_EQ(t.encode("<|endoftext|>").numel(), 13) << "as text";
  EXPECT_THROWS_SAYING(t.decode(from_vector(std::vector<std::int64_t>{257})), ValueError,
                       "token 257 is none of the tokenizer's, which are below 257");
  EXPECT_THROWS_SAYING(t.decode(from_vector(std::vector<std::int64_t>{-1})), ValueError, "token -1 is none");
  EXPECT_THROWS_SAYING(t.decode(from_vector(std::vector{std::int64_t{1} << 40})), ValueError, "token 1099511627776 is");
}

TEST(BpeTokenizer, HasNoTokenForAnIdThatIsLeftOut) {
  Files files;
  files.vocab.back() = ',';
  const BpeTokenizer t(files.vocab + "\"last\":300}", files.merges);
  EXPECT_EQ(t.decode(from_vector(std::vector<std::int64_t>{300})), "last");
  EXPECT_THROWS_SAYING(t.decode(from_vector(std::vector<std::int64_t>{280})), ValueError, "token 280 is none");
}

TEST(BpeTokenizer, EncodesOnSeveralThreads) {
  const std::string text = "Tensors, tensors and 3 more tensors.";
  const auto expected = tokenizer().encode(text).to_vector<std::int64_t>();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) EXPECT_EQ(tokenizer().encode(text).to_vector<std::int64_t>(), expected);
    });
}

TEST(BpeTokenizer, RejectsDamagedFiles) {
  const Files good;
  const auto of = [](const std::string& vocab, const std::string& merges) {
    return [=] { BpeTokenizer(vocab, merges); };
  };
  EXPECT_THROWS_SAYING(of(good.vocab.substr(0, 100), "")(), FileError, "vocab.json: at byte 101: expected JSON");
  EXPECT_THROWS_SAYING(of(R"({"a":1e391})", "")(), FileError, "vocab.json: a number is too large");
  EXPECT_THROWS_SAYING(of("[1]", "")(), FileError, "vocab.json: expected an object of tokens and their ids");
  EXPECT_THROWS_SAYING(of("{}", "")(), FileError, R"(vocab.json has no token for the bytes '\x00')");
  EXPECT_THROWS_SAYING(of(R"({"a":-1})", "")(), FileError, "the id of \"a\" is no integer from 0 to 2^31 - 1");
  EXPECT_THROWS_SAYING(of(R"({"a":1.5})", "")(), FileError, "the id of \"a\" is no integer");
  EXPECT_THROWS_SAYING(of(R"({"a":4294967296})", "")(), FileError, "the id of \"a\" is no integer");
  EXPECT_THROWS_SAYING(of(R"({"a":1,"b":1})", "")(), FileError, "two tokens have the id 1");
  EXPECT_THROWS_SAYING(of(R"({"a":1,"b":2000000000})", "")(), FileError,
                       "the largest id is 2000000000, but there are only 2 tokens");
  EXPECT_THROWS_SAYING(of("{\"\xE4\xB8\xAD\":1}", "")(), FileError, "has a character that stands for no byte");
  EXPECT_THROWS_SAYING(of(good.vocab, "#version: 0.2\na\n")(), FileError, "merges.txt: line 2: expected two tokens");
  EXPECT_THROWS_SAYING(of(good.vocab, "a  b\n")(), FileError, "merges.txt: line 1: expected two tokens, whose");
  for (const char* line : {"a ", " a", "a \xE4\xB8\xAD", "\xE4\xB8\xAD a"})
    EXPECT_THROWS_SAYING(of(good.vocab, line)(), FileError, "merges.txt: line 1: expected two tokens, whose");
  EXPECT_THROWS_SAYING(of(good.vocab, "a b\n")(), FileError,
                       "merges.txt: merge 1: vocab.json has no token for the bytes 'ab'");
  const test::TemporaryDir dir;
  EXPECT_THROWS_SAYING(BpeTokenizer(std::filesystem::path(dir.path())), FileError, "vocab.json");
}

TEST(BpeTokenizer, TakesMergesWithWindowsLineEnds) {
  const BpeTokenizer t = Files({"ab"}, "a b\r\n").tokenizer();
  EXPECT_EQ(t.encode("ab").numel(), 1);
}

}  // namespace
}  // namespace bytetape::data
