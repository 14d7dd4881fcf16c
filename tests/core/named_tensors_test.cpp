#include "bytetape/core/named_tensors.h"

#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(NamedTensors, SayEachKeyThatDoesNotFit) {
  const NamedTensors own{{"a", ones({1})}, {"b", ones({1})}, {"c", ones({1})}};
  const auto check = [&](const std::vector<std::string>& given, bool strict = true) {
    check_keys("load", own, given, strict);
  };
  check({"c", "a", "b"});
  EXPECT_THROWS_SAYING(check({"b"}), ValueError, "load: missing keys: [a, c]; unexpected keys: []");
  EXPECT_THROWS_SAYING(check({"a", "b", "c", "x", "y"}), ValueError, "missing keys: []; unexpected keys: [x, y]");
  EXPECT_THROWS_SAYING(check({"a", "b", "x"}), ValueError, "missing keys: [c]; unexpected keys: [x]");
  check({"b", "x"}, /*strict=*/false);
  EXPECT_THROWS_SAYING(check({"a", "b", "a", "b", "c"}, false), ValueError, "load: repeated keys: [a, b]");
}

TEST(NamedTensors, NameTheMostSimilarKey) {
  const NamedTensors own{{"h.0.attn.weight", ones({1})}, {"h.0.mlp.weight", ones({1})}, {"ln", ones({1})}};
  EXPECT_THROWS_SAYING(check_keys("load", own, {"h.0.mlp.weights", "h.0.atn.weight", "other"}, true), ValueError,
                       "missing keys: [h.0.attn.weight (most similar: h.0.atn.weight), h.0.mlp.weight (most similar: "
                       "h.0.mlp.weights), ln]; unexpected keys: [h.0.mlp.weights, h.0.atn.weight, other]");
  const std::string endless(1000, 'h');
  EXPECT_THROWS_SAYING(check_keys("load", own, {endless}, true), ValueError, "ln]; unexpected keys: [hhh");
}

TEST(NamedTensors, CutLongLists) {
  NamedTensors own;
  for (int i = 0; i < 15; ++i) own.emplace_back("w" + std::to_string(i), ones({1}));
  EXPECT_THROWS_SAYING(check_keys("load", own, {}, true), ValueError, "w10, w11, and 3 more]; unexpected keys: []");
}

}  // namespace
}  // namespace bytetape
