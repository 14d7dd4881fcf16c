#include "bytetape/nn/generate.h"

#include <cmath>
#include <map>
#include <set>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/predict.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using nn::GenerateOptions;
using nn::KeyValueCache;
using Tokens = std::vector<std::int64_t>;

/// A small model of two layers with grouped queries, in f64. Without a cache it sees all tokens at once.
struct Model {
  static constexpr std::int64_t vocabulary = 11, width = 12, heads = 6, groups = 2, size = 2, room = 24;
  Tensor tokens = weight(1, {vocabulary, width}), places = weight(2, {room, width}),
         head = weight(3, {vocabulary, width});
  struct Layer {
    Tensor q = weight(4, {width, width}), k = weight(5, {groups * size, width}), v = weight(6, {groups * size, width});
  };
  std::vector<Layer> layers{2};

  static Tensor weight(std::uint64_t seed, const Shape& shape) {
    Generator generator(seed);
    return 0.4 * randn(shape, DType::f64, default_device(), generator);
  }
  static Tensor in_heads(const Tensor& x, std::int64_t n) {
    return transpose(view(x, {x.size(0), x.size(1), n, size}), 1, 2);
  }
  /// attend(layer, q, k, v)
  template <class F>
  Tensor logits(const Tensor& t, const Tensor& positions, const F& attend) const {
    Tensor x = embedding(t, tokens) + embedding(positions, places);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const Tensor y = attend(static_cast<std::int64_t>(l), in_heads(linear(x, layers[l].q), heads),
                              in_heads(linear(x, layers[l].k), groups), in_heads(linear(x, layers[l].v), groups));
      x = x + reshape(transpose(y, 1, 2), x.shape());
    }
    return linear(x, head);
  }
  Tensor operator()(const Tensor& t) const {
    return logits(t, arange(t.size(1), DType::i64, t.device()),
                  [](std::int64_t, auto... qkv) { return scaled_dot_product_attention(qkv..., {.causal = true}); });
  }
  Tensor operator()(const Tensor& t, KeyValueCache& cache) const {
    return logits(t, cache.token_positions(t.size(1)),
                  [&](std::int64_t layer, auto... qkv) { return cache.attend(layer, qkv...); });
  }
};

nn::KeyValueCacheSizes sizes(std::int64_t rows) {
  return {.layers = 2,
          .rows = rows,
          .heads = Model::groups,
          .capacity = Model::room,
          .head_size = Model::size,
          .dtype = DType::f64};
}
Tensor prompts(const Tokens& tokens, std::int64_t rows = 1) {
  return from_vector(tokens, {rows, std::ssize(tokens) / rows});
}
Tokens generated(const Model& model, const Tensor& prompts, const GenerateOptions& options) {
  KeyValueCache cache(sizes(prompts.size(0)));
  return nn::generate(model, cache, prompts, options).to_vector<std::int64_t>();
}

TEST(KeyValueCache, GivesTheLogitsOfAllTokensAtOnce) {
  const Model model;
  const Tensor tokens = randint(0, Model::vocabulary, {3, 20});
  KeyValueCache cache(sizes(3));
  std::vector<Tensor> parts;
  for (std::int64_t begin = 0, t = 7; begin < 20; begin += t, t = 1) {
    parts.push_back(model(narrow(tokens, 1, begin, t), cache));
    cache.advance(t);
  }
  EXPECT_TRUE(test::all_close(cat(parts, 1).to_vector<double>(), model(tokens).to_vector<double>(), 1e-12, 1e-12));
  EXPECT_EQ(cache.positions().to_vector<std::int64_t>(), Tokens(3, 20));
  cache.reset();
  EXPECT_EQ(cache.positions().to_vector<std::int64_t>(), Tokens(3, 0));
}

TEST(KeyValueCache, IsAllocatedAtOnceUnderItsRole) {
  const std::size_t before = test::allocated();
  KeyValueCache cache(sizes(3));
  const std::size_t bytes = 4 * test::rounded(3 * 2 * 24 * 2 * 8) + test::rounded(3 * 8);
  EXPECT_EQ(test::held_as(memory::Role::key_value_cache), bytes);
  EXPECT_EQ(test::allocated() - before, bytes);
  const Model model;
  nn::generate(model, cache, zeros({3, 2}, DType::i64));
  EXPECT_EQ(test::held_as(memory::Role::key_value_cache), bytes);
}

TEST(KeyValueCache, FindsTheLastTokens) {
  KeyValueCache cache(sizes(2));
  const Tensor x = reshape(arange(12.0), {2, 3, 2});
  EXPECT_EQ(cache.last_tokens(x).to_vector<double>(), (std::vector<double>{4, 5, 10, 11}));
  cache.set_lengths(from_vector(Tokens{1, 3}));
  EXPECT_EQ(cache.last_tokens(x).to_vector<double>(), (std::vector<double>{0, 1, 10, 11}));
  cache.advance(3);
  EXPECT_EQ(cache.positions().to_vector<std::int64_t>(), (Tokens{1, 3}));
  EXPECT_EQ(cache.last_tokens(x).to_vector<double>(), (std::vector<double>{4, 5, 10, 11}));
  cache.set_lengths(from_vector(Tokens{1, 3}));
  cache.reset();
  EXPECT_EQ(cache.last_tokens(x).to_vector<double>(), (std::vector<double>{4, 5, 10, 11}));
}

TEST(KeyValueCache, RefusesBadInput) {
  for (const nn::KeyValueCacheSizes& none :
       {nn::KeyValueCacheSizes{.layers = 0}, {.rows = 0}, {.heads = 0}, {.capacity = 0}, {.head_size = 0}})
    EXPECT_THROWS_SAYING(KeyValueCache{none}, ValueError, "KeyValueCache needs positive sizes");
  EXPECT_NO_THROW(KeyValueCache({.head_size = 256}));
  EXPECT_THROWS_SAYING(KeyValueCache({.head_size = 257}), ValueError, "a head size of at most 256, got 257");
  EXPECT_THROWS_SAYING(KeyValueCache({.dtype = DType::i64}), DTypeError, "needs a floating dtype, got i64");
  KeyValueCache cache(sizes(2));
  const Tensor x = zeros({2, 2, 1, 2}, DType::f64);
  EXPECT_THROWS_SAYING(cache.attend(2, x, x, x), ValueError, "there is no layer 2 of 2");
  EXPECT_THROWS_SAYING(cache.attend(-1, x, x, x), ValueError, "there is no layer -1 of 2");
  EXPECT_THROWS_SAYING(cache.set_lengths(zeros({3}, DType::i64)), ShapeError, "a length for each of its 2 rows");
  EXPECT_THROWS_SAYING(cache.set_lengths(zeros({2})), DTypeError, "lengths in i64");
  for (const Tensor& wrong : {zeros({3, 1, 2}), zeros({2, 1}), zeros({2, 0, 2}), Tensor()})
    EXPECT_THROWS_SAYING(cache.last_tokens(wrong), ShapeError, "expects (2, t, d) with at least one token, got");
}

TEST(Generate, TakesTheMostLikelyTokensOfAModelWithoutACache) {
  const Model model;
  Tokens all{3, 1, 4, 1, 5}, expected;
  for (int i = 0; i < 12; ++i) {
    const Tensor logits = model(prompts(all));
    all.push_back(argmax(select(select(logits, 0, 0), 0, -1)).item<std::int64_t>());
    expected.push_back(all.back());
  }
  EXPECT_EQ(generated(model, prompts({3, 1, 4, 1, 5}), {.max_new_tokens = 12, .temperature = 0}), expected);
  EXPECT_EQ(generated(model, prompts({3, 1, 4, 1, 5}), {.max_new_tokens = 12, .top_k = 1}), expected);
  EXPECT_EQ(generated(model, prompts({3, 1, 4, 1, 5}), {.max_new_tokens = 12, .top_p = 1e-9}), expected);
}

TEST(Generate, GivesEachRowOfABatchWhatItGetsAlone) {
  const Model model;
  const GenerateOptions options{.max_new_tokens = 9, .temperature = 0};
  GenerateOptions ragged = options;
  ragged.lengths = {4, 1, 2};
  const Tokens all = generated(model, prompts({7, 2, 9, 4, 5, 0, 0, 0, 6, 8, 10, 10}, 3), ragged);
  Tokens alone;
  for (const Tokens& prompt : {Tokens{7, 2, 9, 4}, Tokens{5}, Tokens{6, 8}})
    for (const std::int64_t token : generated(model, prompts(prompt), options)) alone.push_back(token);
  EXPECT_EQ(all, alone);
}

TEST(Generate, TakesTheLastTokensLogitsFromTheModel) {
  const Model model;
  const auto last = [&](const Tensor& tokens, KeyValueCache& cache) { return cache.last_tokens(model(tokens, cache)); };
  const GenerateOptions options{.temperature = 0, .lengths = {2, 3}};
  const Tensor two = prompts({1, 2, 3, 4, 5, 6}, 2);
  KeyValueCache cache(sizes(2));
  EXPECT_EQ(nn::generate(last, cache, two, options).to_vector<std::int64_t>(), generated(model, two, options));
}

/// A model of one layer whose logits are the same for all tokens.
nn::GenerateStep constant(const std::vector<double>& logits) {
  return [logits](const Tensor& tokens, KeyValueCache&) {
    return expand(from_vector(logits, logits.size()), {tokens.size(0), 1, std::ssize(logits)});
  };
}
/// The tokens that are drawn in many rows.
std::map<std::int64_t, int> drawn(const std::vector<double>& probabilities, GenerateOptions options) {
  constexpr std::int64_t rows = 4000;
  std::vector<double> logits;
  for (const double p : probabilities) logits.push_back(std::log(p));
  KeyValueCache cache({.rows = rows});
  Generator generator(7);
  options.max_new_tokens = 1;
  options.generator = &generator;
  std::map<std::int64_t, int> counts;
  const Tensor y = nn::generate(constant(logits), cache, zeros({rows, 1}, DType::i64), options);
  for (const std::int64_t token : y.to_vector<std::int64_t>()) ++counts[token];
  return counts;
}
std::set<std::int64_t> kept(const std::vector<double>& probabilities, const GenerateOptions& options) {
  std::set<std::int64_t> tokens;
  for (const auto& [token, count] : drawn(probabilities, options)) tokens.insert(token);
  return tokens;
}

TEST(Generate, ChoosesAmongTheAllowedTokensAlone) {
  using Set = std::set<std::int64_t>;
  const std::vector<double> p{0.1, 0.4, 0.05, 0.25, 0.2};
  EXPECT_EQ(kept(p, {}), (Set{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept(p, {.top_k = 1}), (Set{1}));
  EXPECT_EQ(kept(p, {.top_k = 3}), (Set{1, 3, 4}));
  EXPECT_EQ(kept(p, {.top_k = 99}), (Set{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept(p, {.top_p = 0.39}), (Set{1}));
  EXPECT_EQ(kept(p, {.top_p = 0.41}), (Set{1, 3}));
  EXPECT_EQ(kept(p, {.top_p = 0.86}), (Set{0, 1, 3, 4}));
  // Among the three most likely tokens, 0.4 / 0.85 and 0.25 / 0.85 add up to 0.76.
  EXPECT_EQ(kept(p, {.top_k = 3, .top_p = 0.75}), (Set{1, 3}));
  EXPECT_EQ(kept(p, {.top_k = 3, .top_p = 0.77}), (Set{1, 3, 4}));
  EXPECT_EQ(kept({0.25, 0.25, 0.25, 0.25}, {.top_k = 2}), (Set{0, 1}));  // of equal ones, the first
}

TEST(Generate, DividesLogitsByTheTemperature) {
  const auto counts = drawn({0.2, 0.8}, {.temperature = 0.5});  // squares: 1 in 17
  EXPECT_NEAR(counts.at(0), 4000.0 / 17, 50);
  EXPECT_NEAR(drawn({0.2, 0.8}, {}).at(0), 800, 90);
}

TEST(Generate, DrawsTheSameTokensForASeed) {
  const Model model;
  const auto draw = [&](std::uint64_t seed) {
    Generator generator(seed);
    return generated(model, prompts({1, 2}), {.generator = &generator});
  };
  EXPECT_EQ(draw(3), draw(3));
  EXPECT_NE(draw(3), draw(4));
}

/// A model whose next token is the last one plus 1.
Tensor counting(const Tensor& tokens, KeyValueCache&) { return to(one_hot(tokens + 1, 40), DType::f32); }

TEST(Generate, EndsARowAtItsEndToken) {
  KeyValueCache cache({.rows = 2, .capacity = 40});
  int calls = 0;
  const auto model = [&](const Tensor& tokens, KeyValueCache& cache) {
    ++calls;
    return counting(tokens, cache);
  };
  std::vector<Tokens> seen;
  GenerateOptions options{.max_new_tokens = 6, .temperature = 0, .end_token = 9};
  options.on_tokens = [&](const Tokens& tokens) { seen.push_back(tokens); };
  const Tensor y = nn::generate(model, cache, prompts({7, 5}, 2), options);
  EXPECT_EQ(y.to_vector<std::int64_t>(), (Tokens{8, 9, 9, 9, 9, 9, 6, 7, 8, 9, 9, 9}));
  EXPECT_EQ(seen, (std::vector<Tokens>{{8, 6}, {9, 7}, {9, 8}, {9, 9}}));
  EXPECT_EQ(calls, 4);
  options.on_tokens = {};
  EXPECT_EQ(nn::generate(model, cache, prompts({7, 5}, 2), options).to_vector<std::int64_t>(),
            y.to_vector<std::int64_t>());
}

TEST(Generate, FillsTheCacheToItsLastPlace) {
  KeyValueCache cache({.capacity = 8});
  const Tensor y = nn::generate(counting, cache, prompts({1, 2, 3}), {.max_new_tokens = 6, .temperature = 0});
  EXPECT_EQ(y.to_vector<std::int64_t>(), (Tokens{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(cache.positions().to_vector<std::int64_t>(), Tokens{8});
}

TEST(Generate, IsPredictedToTheByte) {
  for (const GenerateOptions& options : {GenerateOptions{.temperature = 0}, GenerateOptions{.top_k = 4},
                                         GenerateOptions{.top_p = 0.7, .lengths = {1, 2}}}) {
    const auto program = [&](Device device) {
      const DefaultDevice here(device);
      const Model model;
      KeyValueCache cache(sizes(2));
      nn::generate(model, cache, zeros({2, 3}, DType::i64), options);
    };
    EXPECT_EQ(test::first_difference(test::record_events(Device::cpu(), program),
                                     test::record_events(Device::meta(Device::cpu()), program)),
              "");
  }
}

// The ends of rows are unknown there, so that all tokens are counted.
TEST(Generate, ReadsNothingOnAMetaDevice) {
  const DefaultDevice meta(Device::meta());
  int calls = 0;
  const auto model = [&](const Tensor& tokens, KeyValueCache& cache) {
    ++calls;
    return counting(tokens, cache);
  };
  const auto fail = [](const Tokens&) { FAIL() << "there are no tokens to show"; };
  for (const GenerateOptions& options :
       {GenerateOptions{.max_new_tokens = 3, .end_token = 9}, GenerateOptions{.max_new_tokens = 3, .on_tokens = fail},
        GenerateOptions{.max_new_tokens = 3, .end_token = 9, .on_tokens = fail}}) {
    KeyValueCache cache({.rows = 2, .capacity = 8});
    calls = 0;
    EXPECT_EQ(describe(nn::generate(model, cache, zeros({2, 3}, DType::i64), options)), "i64(2, 3) on meta");
    EXPECT_EQ(calls, 3);
  }
}

TEST(Generate, DrawsNoTokenAfterThoseOfTopP) {
  KeyValueCache cache({.capacity = 40});
  const auto even = [](const Tensor& tokens, KeyValueCache&) { return zeros({1, tokens.size(1), 2}); };
  const Tensor prompt = zeros({1, 1}, DType::i64);
  const Tensor y = nn::generate(even, cache, prompt, {.max_new_tokens = 30, .temperature = 1, .top_p = 0.5});
  EXPECT_EQ(min(y).item<int>(), max(y).item<int>()) << "the first token has all of 0.5";
}

TEST(Generate, RefusesBadInputBeforeAnyWork) {
  KeyValueCache cache({.rows = 2, .capacity = 8});
  const auto refuse = [](const Tensor&, KeyValueCache&) -> Tensor { throw std::logic_error("called"); };
  const Tensor good = zeros({2, 3}, DType::i64);
  const auto with = [&](const GenerateOptions& options, const Tensor& prompts) {
    return [&, options, prompts] { nn::generate(refuse, cache, prompts, options); };
  };
  const auto bad = [&](const GenerateOptions& options) { return with(options, good); };
  EXPECT_THROWS_SAYING(bad({.max_new_tokens = 0})(), ValueError, "generate: max_new_tokens must be positive, got 0");
  EXPECT_THROWS_SAYING(bad({.temperature = -1})(), ValueError, "temperature must be 0 or a positive number, got -1");
  EXPECT_THROWS_SAYING(bad({.temperature = INFINITY})(), ValueError, "temperature must be");
  EXPECT_THROWS_SAYING(bad({.top_k = -1})(), ValueError, "top_k must be positive, or 0 for all tokens, got -1");
  EXPECT_THROWS_SAYING(bad({.top_p = 0})(), ValueError, "top_p must be in (0, 1], got 0");
  EXPECT_THROWS_SAYING(bad({.top_p = 1.01})(), ValueError, "top_p must be in (0, 1], got 1.01");
  EXPECT_THROWS_SAYING(bad({.end_token = -2})(), ValueError, "the end token must not be negative, got -2");
  EXPECT_THROWS_SAYING(bad({.generator = nullptr})(), ValueError, "the generator is null");
  EXPECT_THROWS_SAYING(bad({.lengths = {1}})(), ValueError, "expected lengths of 2 prompts, got 1");
  EXPECT_THROWS_SAYING(bad({.lengths = {1, 4}})(), ValueError, "the length of a prompt must be in [1, 3], got 4");
  EXPECT_THROWS_SAYING(bad({.lengths = {0, 3}})(), ValueError, "the length of a prompt must be in [1, 3], got 0");
  EXPECT_THROWS_SAYING(bad({.max_new_tokens = 7})(), ValueError,
                       "a prompt of 3 tokens and 7 new ones need a cache with a capacity of 9, got 8");
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{1, 3}, {3, 1}})
    EXPECT_THROWS_SAYING(bad({.max_new_tokens = 7, .lengths = lengths})(), ValueError,
                         "a prompt of 3 tokens and 7 new ones need a cache with a capacity of 9, got 8");
  EXPECT_THROWS_SAYING(with({}, zeros({2, 9}, DType::i64))(), ValueError,
                       "prompts of 9 tokens exceed the capacity of the cache, 8");
  EXPECT_THROWS_SAYING(with({}, zeros({2, 3}))(), DTypeError, "expected prompts in i64, got f32(2, 3)");
  EXPECT_THROWS_SAYING(with({}, zeros({3, 3}, DType::i64))(), ShapeError, "expected prompts (2, t) for the rows");
  EXPECT_THROWS_SAYING(with({}, zeros({2, 3, 1}, DType::i64))(), ShapeError, "expected prompts (2, t) for the rows");
  EXPECT_THROW(bad({.max_new_tokens = 2, .end_token = 0})(), std::logic_error) << "0 is a token";
  EXPECT_THROWS_SAYING(with({}, zeros({2, 0}, DType::i64))(), ShapeError, "with at least one token");
  EXPECT_THROWS_SAYING(with({}, Tensor())(), ValueError, "the prompts are an undefined tensor");
  EXPECT_THROWS_SAYING(with({}, zeros({2, 3}, DType::i64, Device::meta()))(), DeviceError, "on another device");
  EXPECT_THROWS_SAYING(nn::generate({}, cache, good), ValueError, "the model is an empty function");
  for (const Tensor& logits : {zeros({2, 3, 4, 1}), zeros({3, 3, 4}), zeros({2, 2, 4}), zeros({2, 3, 0}), Tensor()})
    EXPECT_THROWS_SAYING(nn::generate([&](auto&&...) { return logits; }, cache, good, {.max_new_tokens = 2}),
                         ShapeError,
                         detail::concat("expected logits (2, 3, vocabulary) from the model, got ", describe(logits)));
}

}  // namespace
}  // namespace bytetape
