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

/// The missing key `own` with the one of the unexpected keys that the message has beside it; "" if it has none.
std::string most_similar(const std::string& own, const std::vector<std::string>& given) {
  try {
    check_keys("load", {{own, ones({1})}}, given, true);
  } catch (const ValueError& e) {
    const std::string text = e.what(), sign = own + " (most similar: ";
    const std::size_t at = text.find(sign);
    if (at == std::string::npos) return "";
    const std::size_t begin = at + sign.size();
    return text.substr(begin, text.find(')', begin) - begin);
  }
  return "no error";
}

TEST(NamedTensors, NameTheMostSimilarKeyDespiteOtherComponents) {
  const std::string compiled = "_orig_mod.h.0.attn.c_attn.weight";
  EXPECT_EQ(
      most_similar("h.0.attn.c_attn.weight", {"_orig_mod.h.1.attn.c_attn.weight", "_orig_mod.h.0.attn.c_attn.bias",
                                              compiled, "_orig_mod.h.0.attn.c_proj.weight"}),
      compiled);
  EXPECT_EQ(most_similar(compiled, {"h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias"}), "h.0.attn.c_attn.weight");
  EXPECT_EQ(most_similar("fc.weight", {"_orig_mod.module.fc.bias", "_orig_mod.module.fc.weight"}),
            "_orig_mod.module.fc.weight");
  const std::vector<std::string> llama{"lm_head.weight",
                                       "model.embed_tokens.weight",
                                       "model.layers.0.self_attn.k_proj.weight",
                                       "model.norm.weight",
                                       "model.layers.0.self_attn.q_proj.weight",
                                       "model.layers.1.self_attn.q_proj.weight",
                                       "model.layers.0.mlp.up_proj.weight",
                                       "model.layers.0.input_layernorm.weight"};
  EXPECT_EQ(most_similar("layers.0.attn.q_proj.weight", llama), llama[4]);
  EXPECT_EQ(most_similar("layers.1.attn.q_proj.weight", llama), llama[5]);
  EXPECT_EQ(most_similar("layers.0.mlp.up.weight", llama), llama[6]);
  EXPECT_EQ(most_similar("norm.weight", llama), llama[3]);
  const std::vector<std::string> neo{"transformer.wpe.weight", "transformer.h.0.attn.attention.k_proj.weight",
                                     "transformer.h.0.attn.attention.q_proj.weight", "transformer.ln_f.weight"};
  EXPECT_EQ(most_similar("h.0.attn.q_proj.weight", neo), neo[2]);
  EXPECT_EQ(most_similar("ln_f.weight", neo), neo[3]);
}

TEST(NamedTensors, NameNoKeyThatIsUnrelated) {
  EXPECT_EQ(most_similar("h.0.ln_1.weight", {"model.layers.0.input_layernorm.weight", "weight", "mlp.weight",
                                             "model.layers.0.mlp.up_proj.weight", "0", "", "."}),
            "");
  EXPECT_EQ(most_similar("h.0.attn.weight", {"h.0.feedforward.weight", "encoder.h.0.feedforward.weight"}), "");
  EXPECT_EQ(most_similar("ln", {"model.transformer.fc", "a.b.c.d.e.f.g", "ln.weight.of.another"}), "");
  EXPECT_EQ(most_similar("conv1.weight", {"classifier.linear.bias", "optimizer.state.step"}), "");
}

TEST(NamedTensors, CutLongLists) {
  NamedTensors own;
  for (int i = 0; i < 15; ++i) own.emplace_back("w" + std::to_string(i), ones({1}));
  EXPECT_THROWS_SAYING(check_keys("load", own, {}, true), ValueError, "w10, w11, and 3 more]; unexpected keys: []");
}

}  // namespace
}  // namespace bytetape
