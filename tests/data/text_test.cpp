#include "bytetape/data/text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "bytetape/bytetape.h"
#include "tests/data/files.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

using data::CharTokenizer;

TEST(CharTokenizer, NumbersCharactersInTheOrderOfTheirBytes) {
  const CharTokenizer tokenizer("banana bread");
  EXPECT_EQ(tokenizer.size(), 7);  // " abdenr"
  EXPECT_EQ(tokenizer.encode("bad nan").to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 1, 3, 0, 5, 1, 5}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("bread and")), "bread and");
}

TEST(CharTokenizer, TakesAUtf8SequenceAsOneCharacter) {
  const CharTokenizer tokenizer("aäß€😀");
  EXPECT_EQ(tokenizer.size(), 5);
  EXPECT_EQ(tokenizer.encode("😀a€").numel(), 3);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ß😀€äa")), "ß😀€äa");
}

TEST(CharTokenizer, TakesTheFirstAndLastSequenceOfEachLength) {
  const auto characters = [](std::string_view text) { return CharTokenizer(text).encode(text).numel(); };
  for (const char* one :
       {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(characters(one), 1) << one;
  EXPECT_EQ(characters("\xC1\xBF"), 2) << "no sequence begins with C1";
  EXPECT_EQ(characters("\xF8\x90\x80\x80"), 4) << "nor with F8";
  EXPECT_EQ(characters("\xC3z"), 2);
  EXPECT_EQ(characters("\xE2z\x82"), 3);
}

TEST(CharTokenizer, KeepsAnyBytes) {
  std::string bytes;
  for (int b = 0; b < 256; ++b) bytes += static_cast<char>(b);
  bytes += "\xE2\x82";            // the start of a sequence
  bytes += "\xF0\x9F\x98zz\xC3";  // one that another character breaks off, and one at the end
  const CharTokenizer tokenizer(bytes);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
  EXPECT_EQ(CharTokenizer("a\xE2\x82").size(), 3) << "a sequence that ends early is bytes";
  EXPECT_EQ(CharTokenizer("a\xE2\x82\xAC").size(), 2);
}

TEST(CharTokenizer, RejectsWhatItsTextLacks) {
  const CharTokenizer tokenizer("abc");
  EXPECT_THROWS_SAYING(tokenizer.encode("abä"), ValueError,
                       "the tokenizer's text does not have 'ä', which is at byte 2");
  EXPECT_THROWS_SAYING(tokenizer.encode("a\n"), ValueError, R"(does not have '\x0a', which is at byte 1)");
  EXPECT_THROWS_SAYING(tokenizer.encode("\xC3"), ValueError, R"(does not have '\xc3', which is at byte 0)");
  EXPECT_THROWS_SAYING(tokenizer.decode(from_vector(std::vector<std::int64_t>{0, 3})), ValueError,
                       "token 3 is none of the tokenizer's, which are below 3");
  EXPECT_THROWS_SAYING(tokenizer.decode(from_vector(std::vector<std::int64_t>{-1})), ValueError, "token -1 is none");
  EXPECT_THROWS_SAYING(tokenizer.decode(zeros(2)), DTypeError, "expected tokens in i64, got f32(2,)");
  EXPECT_THROWS_SAYING(tokenizer.decode(zeros({1, 2}, DType::i64)), ShapeError, "expected tokens (n), got i64(1, 2)");
  EXPECT_EQ(tokenizer.encode("").numel(), 0);
  EXPECT_EQ(CharTokenizer("").size(), 0);
}

TEST(Text, IsReadPlainOrCompressed) {
  const test::TemporaryDir dir;
  const std::string text = std::string(3 << 20, 'x') + "end";
  std::ofstream(dir / "plain.txt") << text;
  EXPECT_EQ(data::read_text(dir / "plain.txt"), text);
  ASSERT_EQ(std::system(("gzip -k " + (dir / "plain.txt")).c_str()), 0);
  EXPECT_EQ(data::read_text(dir / "plain.txt.gz"), text);
  EXPECT_THROWS_SAYING(data::read_text(dir / "none"), FileError, "none");
}

TEST(Text, IsFoundByPathOrByNameInTheFolders) {
  const test::TemporaryDir dir;
  std::filesystem::create_directory(dir.path() / "text");
  std::ofstream(dir / "text/some.txt.gz") << "packed";
  std::ofstream(dir / "here.txt") << "text";
  EXPECT_EQ(data::find_text(dir / "here.txt"), dir / "here.txt");
  const std::filesystem::path relative = std::filesystem::relative(dir / "here.txt");
  EXPECT_EQ(data::find_text(relative, dir / "."), relative);
  EXPECT_EQ(data::find_text("some.txt", dir / "."), dir / "./text/some.txt.gz");
  std::ofstream(dir / "text/some.txt") << "plain";
  EXPECT_EQ(data::find_text("some.txt", dir / "."), dir / "./text/some.txt") << "a plain file comes first";
  EXPECT_EQ(data::find_text("none.txt", dir / "."), std::nullopt);
  EXPECT_EQ(data::find_text(dir / "text", dir / "."), std::nullopt) << "a folder is no text";
}

}  // namespace
}  // namespace bytetape
