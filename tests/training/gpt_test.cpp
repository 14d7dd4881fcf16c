// The GPT of examples/gpt: with a cache, and with weights in Hugging Face's format (tests/golden/gpt2.py).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "bytetape/bytetape.h"
#include "examples/gpt/weights.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

using examples::Gpt;
using examples::PublishedWeights;

constexpr std::int64_t heads = 4;

std::string golden_file() { return (source_dir() / "tests/golden/gpt2.safetensors").string(); }
std::vector<std::int64_t> golden_tokens(const std::string& line) {
  const std::vector<double> numbers = golden_numbers("gpt2.csv", "gpt2", line);
  return {numbers.begin(), numbers.end()};
}
Tensor tokens() {
  const auto all = golden_tokens("tokens");
  return from_vector(all, {1, std::ssize(all)});
}

/// The golden model, with weights that are not loaded yet.
struct Loaded {
  PublishedWeights weights;
  Gpt model;
  explicit Loaded(const std::string& path = golden_file()) : weights(path), model(weights.sizes(heads)) {
    model.eval();
  }
};

/// The largest difference to the golden logits.
double error_of(const Tensor& logits) {
  const std::vector<double> expected = golden_numbers("gpt2.csv", "gpt2", "logits"), found = logits.to_vector<double>();
  EXPECT_EQ(found.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(found[i] - expected[i]));
  return worst;
}
/// The logits of all tokens, one step each.
Tensor step_by_step(Gpt& model, const Tensor& tokens, DType dtype) {
  nn::KeyValueCache cache(model.cache_sizes(1, dtype));
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < tokens.size(1); ++i) {
    parts.push_back(model(narrow(tokens, 1, i, 1), cache));
    cache.advance(1);
  }
  return cat(parts, 1);
}

// These run on the default device.
void expect_golden_logits() {
  const NoGrad no_grad;
  Loaded gpt;
  EXPECT_GT(error_of(gpt.model(tokens())), 0.1);
  gpt.weights.load_into(gpt.model);
  EXPECT_LT(error_of(gpt.model(tokens())), 1e-5);
  EXPECT_LT(error_of(step_by_step(gpt.model, tokens(), DType::f32)), 1e-5);
}
/// Differences are relative to the largest logit, as bf16 rounds sums of its size.
void expect_golden_logits_in_bf16() {
  const NoGrad no_grad;
  Loaded gpt;
  gpt.weights.load_into(gpt.model);
  const Autocast autocast(DType::bf16);
  double largest = 0;
  for (const double v : golden_numbers("gpt2.csv", "gpt2", "logits")) largest = std::max(largest, std::abs(v));
  EXPECT_LT(error_of(gpt.model(tokens())) / largest, 2e-2);
  EXPECT_LT(error_of(step_by_step(gpt.model, tokens(), DType::bf16)) / largest, 2e-2);
}
void expect_golden_text() {
  Loaded gpt;
  gpt.weights.load_into(gpt.model);
  nn::KeyValueCache cache(gpt.model.cache_sizes(1, DType::f32));
  const auto step = [&](const Tensor& t, nn::KeyValueCache& c) { return gpt.model(t, c); };
  const std::vector<std::int64_t> expected = golden_tokens("greedy");
  const Tensor y = nn::generate(step, cache, tokens(), {.max_new_tokens = std::ssize(expected), .temperature = 0});
  EXPECT_EQ(y.to_vector<std::int64_t>(), expected);
}

void expect_first_tokens_only() {
  Loaded gpt;
  gpt.weights.load_into(gpt.model);
  nn::KeyValueCache cache(gpt.model.cache_sizes(1, DType::f32));
  const auto step = [&](const Tensor& t, nn::KeyValueCache& c) { return narrow(gpt.model(t, c), 2, 0, 100); };
  const Tensor y = nn::generate(step, cache, tokens(), {.max_new_tokens = 30, .temperature = 100});
  for (const std::int64_t token : y.to_vector<std::int64_t>()) EXPECT_LT(token, 100);
}

TEST(PublishedGpt, HasTheLogitsOfTransformers) { expect_golden_logits(); }
TEST(PublishedGpt, HasTheLogitsOfTransformersInBf16) { expect_golden_logits_in_bf16(); }
TEST(PublishedGpt, ContinuesATextAsTransformersDoes) { expect_golden_text(); }
TEST(PublishedGpt, SamplesNoPadding) { expect_first_tokens_only(); }

class CudaPublishedGpt : public GpuTest {
 protected:
  DefaultDevice here{gpu};
  AllowTf32 exact{false};
};
TEST_F(CudaPublishedGpt, HasTheLogitsOfTransformers) { expect_golden_logits(); }
TEST_F(CudaPublishedGpt, HasTheLogitsOfTransformersInBf16) { expect_golden_logits_in_bf16(); }
TEST_F(CudaPublishedGpt, ContinuesATextAsTransformersDoes) { expect_golden_text(); }
TEST_F(CudaPublishedGpt, SamplesNoPadding) { expect_first_tokens_only(); }

TEST(PublishedGpt, ReadsItsSizesFromTheFile) {
  const examples::GptSizes s = PublishedWeights(golden_file()).sizes(heads);
  EXPECT_EQ(s.vocabulary, 1200);
  EXPECT_EQ(s.context, 48);
  EXPECT_EQ(s.layers, 2);
  EXPECT_EQ(s.width, 32);
  EXPECT_EQ(PublishedWeights(golden_file()).sizes().heads, 1);  // 64 columns each
  EXPECT_THROWS_SAYING(PublishedWeights(golden_file()).sizes(5), ValueError, "5 heads do not divide the width, 32");
}

/// Saves the golden tensors, changed by f(name, x), under the names that it returns. Those with the name "" are left
/// out.
template <class F>
std::string saved(const TemporaryDir& dir, const F& f, const NamedTensors& more = {}) {
  NamedTensors all = more;
  for (const auto& [name, x] : load_safetensors(golden_file(), Device::cpu()))
    if (const std::string now = f(name); !now.empty()) all.emplace_back(now, x);
  const std::string path = dir / "gpt.safetensors";
  save_safetensors(path, all);
  return path;
}
std::string same(const std::string& name) { return name; }
Tensor embedding_of_golden() {
  for (const auto& [name, x] : load_safetensors(golden_file(), Device::cpu()))
    if (name == "transformer.wte.weight") return x;
  return {};
}

TEST(PublishedGpt, TakesTheOtherFormsOfTheFile) {
  const NoGrad no_grad;
  const TemporaryDir dir;
  const auto expect_loads = [&](const std::string& path) {
    Loaded gpt(path);
    gpt.weights.load_into(gpt.model);
    EXPECT_LT(error_of(gpt.model(tokens())), 1e-5);
  };
  expect_loads(saved(dir, [](const std::string& name) { return name.substr(std::string("transformer.").size()); }));
  expect_loads(
      saved(dir, same,
            {{"transformer.h.0.attn.bias", ones({1, 1, 48, 48})}, {"transformer.h.1.attn.masked_bias", ones({})}}));
  expect_loads(saved(dir, same, {{"lm_head.weight", embedding_of_golden()}}));
}

/// Expects that a file is refused, and that the model is as before.
template <class E>
void expect_refused(const std::string& path, const std::string& words) {
  Gpt model(PublishedWeights(golden_file()).sizes(heads));
  const auto values = [&] {
    std::vector<std::vector<double>> all;
    for (const Tensor& x : model.parameters()) all.push_back(x.to_vector<double>());
    return all;
  };
  const auto before = values();
  EXPECT_THROWS_SAYING(PublishedWeights(path).load_into(model), E, words);
  EXPECT_EQ(values(), before);
}

TEST(PublishedGpt, RefusesOtherFiles) {
  const TemporaryDir dir;
  const auto renamed = [](const std::string& name) {
    return name == "transformer.h.1.mlp.c_fc.weight" ? "transformer.h.1.mlp.fc.weight" : name;
  };
  expect_refused<ValueError>(saved(dir, renamed),
                             "missing keys: [h.1.mlp.c_fc.weight (most similar: h.1.mlp.fc.weight)]; unexpected keys: "
                             "[h.1.mlp.fc.weight]");
  expect_refused<ValueError>(saved(dir, same, {{"score.weight", ones({2, 32})}}), "unexpected keys: [score.weight]");
  expect_refused<ValueError>(saved(dir, same, {{"lm_head.weight", ones({1200, 32})}}),
                             "lm_head.weight differs from wte.weight");
  expect_refused<ShapeError>(
      saved(dir, [](const std::string& name) { return name == "transformer.ln_f.bias" ? "" : name; },
            {{"transformer.ln_f.bias", ones({33})}}),
      "'ln_f.bias' has shape (33,) in the file, but (32,) in the model");
  const auto without = [](const std::string& removed) {
    return [removed](const std::string& name) { return name == "transformer." + removed ? "" : name; };
  };
  expect_refused<ShapeError>(
      saved(dir, without("h.0.attn.c_attn.weight"), {{"transformer.h.0.attn.c_attn.weight", ones({96, 32})}}),
      "'h.0.attn.c_attn.weight' has shape (96, 32) in the file, but (32, 96) in the model: "
      "GPT-2's files have weights of linear layers as (in, out)");
  expect_refused<DTypeError>(
      saved(dir, without("wpe.weight"), {{"transformer.wpe.weight", ones({48, 32}, DType::i64)}}),
      "expected 'wpe.weight' in a floating-point dtype, got i64");
  const std::string other = dir / "other.safetensors";
  save_safetensors(other, {{"conv1.weight", ones({3, 3})}});
  expect_refused<ValueError>(other, "and 16 more]; unexpected keys: [conv1.weight]");
  EXPECT_EQ(PublishedWeights(other).sizes().width, 768);
}

// Without a model, for predictions.
TEST(PublishedGpt, ChecksTensors) {
  const TemporaryDir dir;
  PublishedWeights(golden_file()).check_tensors();
  const auto expect = [&]<class E>(const E*, const std::string& changed, const Tensor& x, const std::string& words) {
    const std::string path =
        saved(dir, [&](const std::string& name) { return name == changed ? "" : name; }, {{changed, x}});
    EXPECT_THROWS_SAYING(PublishedWeights(path).check_tensors(), E, words);
  };
  expect(static_cast<ShapeError*>(nullptr), "transformer.h.1.mlp.c_proj.weight", ones({32, 128}),
         "'h.1.mlp.c_proj.weight' has shape (32, 128) in the file, but (128, 32) in the model");
  expect(static_cast<DTypeError*>(nullptr), "transformer.ln_f.weight", ones({32}, DType::i64),
         "expected 'ln_f.weight' in a floating-point dtype, got i64");
  expect(static_cast<ShapeError*>(nullptr), "transformer.wte.weight", ones({1200 * 32}),
         "expected a matrix as 'wte.weight', got the shape (38400,)");
  expect(static_cast<ValueError*>(nullptr), "lm_head.weight", ones({1200, 32}),
         "lm_head.weight differs from wte.weight");
}

// The code of docs/data.md, which quotes it.
TEST(Gpt, HasATokenizer) {
  const TemporaryDir folder;
  std::string vocab = content_of(source_dir() / "tests/golden/bpe/vocab.json");
  vocab.replace(vocab.rfind('}'), 1, ",\"<|endoftext|>\":1200}");
  set_content(folder / "vocab.json", vocab);
  std::filesystem::copy(source_dir() / "tests/golden/bpe/merges.txt", folder.path());
  const data::BpeTokenizer tokenizer(folder.path());
  const Tensor tokens = tokenizer.encode("The memory of a step<|endoftext|>");
  const std::string text = tokenizer.decode(tokens);
  const std::optional<std::int64_t> end = tokenizer.find("<|endoftext|>");
  EXPECT_EQ(text, "The memory of a step<|endoftext|>");
  EXPECT_EQ(end, 1200);
  for (const std::int64_t token : tokens.to_vector<std::int64_t>()) EXPECT_NE(token, 1200) << "plain text";
  set_content(folder / "vocab.json", vocab.substr(0, 500));
  EXPECT_THROWS_SAYING(data::BpeTokenizer(folder.path()), FileError, "vocab.json: at byte ");
}

TEST(PublishedGpt, RefusesDamagedFiles) {
  const TemporaryDir dir;
  std::ifstream file(golden_file(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const std::string path = dir / "damaged.safetensors";
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{500}, whole.size() - 1}) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    EXPECT_THROWS_SAYING(PublishedWeights{path}, FileError, "damaged.safetensors");
  }
}

// With a cache, as without one, in a batch, and beyond a step of several tokens.
TEST(Gpt, HasTheSameLogitsWithACache) {
  const NoGrad no_grad;
  Gpt model({.vocabulary = 20, .context = 16, .layers = 2, .heads = 2, .width = 8});
  model.to(DType::f64).eval();
  const Tensor t = randint(0, 20, {3, 12});
  nn::KeyValueCache cache(model.cache_sizes(3, DType::f64));
  const Tensor all = model(t);
  for (std::int64_t begin = 0, n = 5; begin < 12; begin += n, n = 1) {
    const Tensor logits = model(narrow(t, 1, begin, n), cache);
    cache.advance(n);
    EXPECT_TRUE(
        all_close(logits.to_vector<double>(), narrow(all, 1, begin + n - 1, 1).to_vector<double>(), 1e-12, 1e-12));
  }
}

}  // namespace
}  // namespace bytetape::test
