#include "bytetape/core/memory/ledger/names.h"

#include <gtest/gtest.h>

namespace bytetape::memory {
namespace {

TEST(Names, APathIsMadeOfItsParentNameAndClass) {
  const NameId layer = child_path(0, "layer1"), block = child_path(layer, "0", "Block"),
               conv = child_path(block, "conv1");
  EXPECT_EQ(name_of(conv), "layer1.0 Block.conv1");
  EXPECT_EQ(plain_path(conv), "layer1.0.conv1");
  EXPECT_EQ(parent_of(conv), block);
  EXPECT_EQ(parent_of(layer), 0u);
  EXPECT_EQ(child_path(block, "conv1"), conv);
  EXPECT_NE(child_path(layer, "0", "Other"), block);
  EXPECT_NE(child_path(layer, "0"), block);
  EXPECT_EQ(with_parent(conv, layer), child_path(layer, "conv1"));
  EXPECT_EQ(&name_of(conv), &name_of(conv)) << "words are made once";
}

TEST(Names, ARootIsNoParent) {
  const NameId root = root_path("Net");
  EXPECT_EQ(name_of(root), "(root) Net");
  EXPECT_EQ(plain_path(root), "");
  EXPECT_TRUE(is_root_path(root));
  EXPECT_FALSE(is_root_path(0));
  EXPECT_EQ(child_path(root, "fc"), child_path(0, "fc"));
  EXPECT_EQ(join_path(root, "fc"), intern("fc"));
  EXPECT_FALSE(is_root_path(intern("fc")));
  EXPECT_EQ(join_path(root, "(root) Net"), root);
  EXPECT_EQ(join_path(root, "(root) Other"), root_path("Other"));
}

TEST(Names, OnlyAPathWithAClassAndWithoutAParentIsARoot) {
  const NameId no_class = child_path(0, "(root)"), below = child_path(intern("a"), "(root)", "Net");
  for (const NameId path : {no_class, below}) EXPECT_FALSE(is_root_path(path)) << name_of(path);
  EXPECT_EQ(name_of(child_path(no_class, "fc")), "(root).fc");
  EXPECT_EQ(name_of(child_path(below, "fc")), "a.(root) Net.fc");
  EXPECT_EQ(plain_path(no_class), "(root)");
  EXPECT_EQ(plain_path(below), "a.(root)");
  EXPECT_FALSE(is_root_path(join_path(intern("a"), "(root) Net")));
}

TEST(Names, WordsThatWereWrittenBeforeAreReadAsTheSamePath) {
  const NameId block = child_path(child_path(0, "layer1"), "12", "Block<(char)65, int>");
  EXPECT_EQ(intern("layer1.12 Block<(char)65, int>"), block);
  EXPECT_EQ(join_path(block, "0 Linear.a"), child_path(child_path(block, "0", "Linear"), "a"));
  EXPECT_EQ(intern("(root) Net<0.5>"), root_path("Net<0.5>"));
}

// A class is not taken for a part of the path where it has a dot.
TEST(Names, AClassMayHaveADot) {
  const NameId fc = child_path(child_path(0, "0", "Scale<0.5>"), "fc");
  EXPECT_EQ(name_of(fc), "0 Scale<0.5>.fc");
  EXPECT_EQ(plain_path(fc), "0.fc");
}

TEST(Names, AnyWordsComeBack) {
  for (const char* words : {"", "relu", "a.b", ".a", "..", "a.", "a..b", "7", "7 ", "7 Linear", "7a b", " ", "(root)",
                            "(root) ", "a.(root) b", "parameter 'weight' of Scale<0.5>", "f32 64x3"}) {
    EXPECT_EQ(name_of(intern(words)), words);
    EXPECT_EQ(intern(words), intern(words)) << words;
  }
  EXPECT_EQ(intern(""), 0u);
  // Only a number has its class behind it.
  for (const char* words : {" a", "a b", "7a b", "7 ", "7"}) EXPECT_EQ(intern(words), child_path(0, words)) << words;
  EXPECT_EQ(intern("7 a"), child_path(0, "7", "a"));
}

TEST(Names, APathIsWithinItselfAndWhatIsAboveIt) {
  EXPECT_TRUE(is_within("a.b", "a.b"));
  EXPECT_TRUE(is_within("a.b", "a"));
  EXPECT_FALSE(is_within("ab", "a"));
  EXPECT_FALSE(is_within("b.a", "a"));
  EXPECT_FALSE(is_within("a", "a.b"));
  EXPECT_FALSE(is_within("a", ""));
}

}  // namespace
}  // namespace bytetape::memory
