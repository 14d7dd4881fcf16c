#include "bytetape/core/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <set>
#include <thread>

#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/random.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/philox.h"
#include "bytetape/core/state_dict.h"
#include "tests/support/expect.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

constexpr std::int64_t many = 100003;  // several threads' worth, and no multiple of anything

double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}
double deviation_of(const std::vector<double>& v) {
  const double mean = mean_of(v);
  double sum = 0;
  for (double x : v) sum += (x - mean) * (x - mean);
  return std::sqrt(sum / static_cast<double>(v.size()));
}
/// Word i of the stream.
std::uint32_t word(PhiloxState s, std::int64_t i) {
  return philox(s.seed, s.offset + static_cast<std::uint64_t>(i / 4))[static_cast<std::size_t>(i % 4)];
}

// In constant expressions: a device's compiler may take the generator as it is.
static_assert(philox(0, 0)[0] == 0x6627e8d5 && unit_float(0x80000000) == 0.5f);
static_assert(dropout_threshold(0) == 0 && dropout_threshold(0.5) == 1 << 23 && dropout_threshold(1) == 1 << 24);
static_assert(dropout_keeps(0, dropout_threshold(0)) && !dropout_keeps(~0u, dropout_threshold(1)));

TEST(Philox, HasTheAuthorsAnswers) {  // kat_vectors of Random123
  const std::array<std::uint32_t, 4> expected{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(philox(0, 0), expected);
}

TEST(Philox, DropoutKeepsWhatIsNotBelowP) {
  for (const double p : {1e-9, 0.1, 0.25, 1.0 / 3, 0.5, 0.9, 1 - 1e-9}) {
    const std::uint32_t threshold = dropout_threshold(p);
    for (std::int64_t near = -2; near <= 2; ++near) {
      const std::int64_t top = std::clamp<std::int64_t>(std::llround(p * 0x1p24) + near, 0, (1 << 24) - 1);
      const auto word = static_cast<std::uint32_t>(top << 8 | 0xa5);
      EXPECT_EQ(dropout_keeps(word, threshold), unit_float(word) >= p) << p << " " << top;
    }
  }
}

TEST(Philox, CountersSideBySideEqualOneByOne) {
  std::uint32_t words[4][64];
  const std::uint64_t seed = 0x123456789abcdef0, first = 0xfffffff0;  // passes 2^32 on the way
  philox(seed, first, words);
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(words[w][i], philox(seed, first + i)[w]) << i;
}

TEST(Generator, HandsOutStretchesThatDoNotOverlap) {
  Generator g(7);
  EXPECT_EQ(g.take(1).offset, 0u);
  EXPECT_EQ(g.take(8).offset, 1u);
  EXPECT_EQ(g.take(0).offset, 3u);
  EXPECT_EQ(g.state().offset, 3u);
  EXPECT_EQ(g.state().seed, 7u);
}

TEST(Generator, RepeatsFromASeedAndFromAState) {
  Generator g(11);
  const auto first = rand({50}, DType::f32, {}, g).to_vector<double>();
  const PhiloxState middle = g.state();
  const auto second = rand({50}, DType::f32, {}, g).to_vector<double>();
  EXPECT_NE(first, second);
  g.set_state(middle);
  EXPECT_EQ(rand({50}, DType::f32, {}, g).to_vector<double>(), second);
  g.manual_seed(11);
  EXPECT_EQ(rand({50}, DType::f32, {}, g).to_vector<double>(), first);
  g.manual_seed(12);
  EXPECT_NE(rand({50}, DType::f32, {}, g).to_vector<double>(), first);
}

TEST(Generator, DefaultOneIsReseeded) {
  manual_seed(3);
  const auto first = randn({20}).to_vector<double>();
  manual_seed(3);
  EXPECT_EQ(randn({20}).to_vector<double>(), first);
}

TEST(Generator, GoesOnFromItsStateDict) {
  Generator g(0xffffffffffffffff);
  g.set_state({0xffffffffffffffff, 0x8000000000000001});
  const StateDict state = g.state_dict();
  const auto expected = rand({50}, DType::f32, {}, g).to_vector<double>();
  Generator other;
  other.load_state_dict(state);
  EXPECT_EQ(rand({50}, DType::f32, {}, other).to_vector<double>(), expected);
  StateDict wrong = state;
  wrong.numbers.erase("offset");
  EXPECT_THROWS_SAYING(other.load_state_dict(wrong), ValueError, "missing number 'offset'");
  wrong = state;
  wrong.numbers["seed"] = 0.5;
  EXPECT_THROWS_SAYING(other.load_state_dict(wrong), ValueError, "'seed' must be an integer");
}

TEST(Generator, DefaultOneIsTheScopes) {
  Generator& shared = default_generator();
  Generator a(1), b(2);
  {
    const DefaultGenerator outer(a);
    EXPECT_EQ(&default_generator(), &a);
    {
      const DefaultGenerator inner(b);
      EXPECT_EQ(&default_generator(), &b);
      manual_seed(7);
    }
    EXPECT_EQ(&default_generator(), &a);
    Generator* of_thread = nullptr;
    std::thread([&] { of_thread = &default_generator(); }).join();
    EXPECT_EQ(of_thread, &shared);
  }
  EXPECT_EQ(&default_generator(), &shared);
  EXPECT_EQ(a.state().seed, 1u);
  EXPECT_EQ(b.state().seed, 7u);
}

TEST(Uniform, ElementsAreTheWordsOfTheStream) {
  Generator g(5);
  g.take(12);
  const PhiloxState s = g.state();
  const Tensor x = rand({300}, DType::f32, {}, g);
  for (std::int64_t i = 0; i < 300; ++i)
    ASSERT_EQ(std::as_const(x).data<float>()[i], static_cast<float>(word(s, i) >> 8) * 0x1p-24f) << i;
  const PhiloxState next = g.state();
  EXPECT_EQ(next.offset, s.offset + 75);
  const Tensor y = rand({300}, DType::f64, {}, g);
  for (std::int64_t i = 0; i < 300; ++i) {
    const std::uint64_t bits = word(next, 2 * i) | std::uint64_t{word(next, 2 * i + 1)} << 32;
    ASSERT_EQ(std::as_const(y).data<double>()[i], static_cast<double>(bits >> 11) * 0x1p-53) << i;
  }
  EXPECT_EQ(g.state().offset, next.offset + 150);
}

TEST(Uniform, AndNormalAreOfFloatingTensors) {
  Tensor x = empty({2}, DType::i64);
  EXPECT_THROWS_SAYING(rand({2}, DType::i64), DTypeError, "rand: expected a floating dtype, got i64(2,)");
  EXPECT_THROWS_SAYING(uniform_(x, 0, 1), DTypeError, "uniform_: expected a floating dtype, got i64(2,)");
  EXPECT_THROWS_SAYING(randn({2}, DType::i64), DTypeError, "randn: expected a floating dtype, got i64(2,)");
  EXPECT_THROWS_SAYING(normal_(x, 0, 1), DTypeError, "normal_: expected a floating dtype, got i64(2,)");
}

TEST(Uniform, StaysBelowHighInEveryDtype) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const auto& [low, high] : {std::pair(0.0, 1.0), {-3.0, -1.0}, {-1.0, 0.0}, {0.1, 0.3}, {1024.0, 1025.0}}) {
      Tensor x = empty({many}, t);
      uniform_(x, low, high);
      const auto v = x.to_vector<double>();
      const double rounding = t == DType::f64 ? 0 : t == DType::f32 ? 1e-8 : 1e-3;
      EXPECT_GE(*std::min_element(v.begin(), v.end()), low - rounding) << t << low;
      EXPECT_LT(*std::max_element(v.begin(), v.end()), high) << t << low;
    }
}

TEST(Uniform, HasItsMeanAndDeviation) {
  for (const DType t : {DType::f64, DType::f32, DType::f16}) {
    Tensor x = empty({many}, t);
    uniform_(x, -1, 3);
    const auto v = x.to_vector<double>();
    EXPECT_NEAR(mean_of(v), 1, 0.02) << t;
    EXPECT_NEAR(deviation_of(v), 4 / std::sqrt(12), 0.02) << t;
  }
}

TEST(Uniform, OfAnEmptyIntervalIsItsStart) {
  Tensor x = empty({5});
  uniform_(x, 2.5, 2.5);
  EXPECT_EQ(x.to_vector<double>(), std::vector<double>(5, 2.5));
}

TEST(Uniform, RejectsBadInput) {
  Tensor x = empty({2}), i = empty({2}, DType::i64);
  EXPECT_THROWS_SAYING(uniform_(x, 1, 0), ValueError, "uniform_");
  EXPECT_THROW(uniform_(x, 0, std::numeric_limits<double>::infinity()), ValueError);
  EXPECT_THROW(uniform_(x, std::nan(""), 1), ValueError);
  EXPECT_THROW(uniform_(i, 0, 1), DTypeError);
}

TEST(Normal, PairsAreBoxMuller) {
  Generator g(9);
  const PhiloxState s = g.state();
  const auto f32 = randn({7}, DType::f32, {}, g).to_vector<double>();
  for (std::int64_t i = 0; i < 7; ++i) {
    const double radius = std::sqrt(-2 * std::log((word(s, i / 2 * 2) + 1.0) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * word(s, i / 2 * 2 + 1) * 0x1p-32;
    EXPECT_NEAR(f32[static_cast<std::size_t>(i)], radius * (i % 2 ? std::sin(angle) : std::cos(angle)), 1e-6);
  }
}

TEST(Normal, HasItsMomentsAndTails) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16}) {
    Tensor x = empty({many}, t);
    normal_(x, 2, 3);
    const auto v = x.to_vector<double>();
    EXPECT_NEAR(mean_of(v), 2, 0.05) << t;
    EXPECT_NEAR(deviation_of(v), 3, 0.05) << t;
    const auto within = [&](double sigmas) {
      return static_cast<double>(
                 std::count_if(v.begin(), v.end(), [&](double z) { return std::abs(z - 2) < 3 * sigmas; })) /
             many;
    };
    EXPECT_NEAR(within(1), 0.6827, 0.01) << t;
    EXPECT_NEAR(within(2), 0.9545, 0.005) << t;
    EXPECT_LT(within(3), 1) << t;
  }
}

TEST(Normal, WithoutDeviationIsItsMean) {
  Tensor x = empty({9});
  normal_(x, -4, 0);
  EXPECT_EQ(x.to_vector<double>(), std::vector<double>(9, -4));
  EXPECT_THROW(normal_(x, 0, -1), ValueError);
}

TEST(Randint, CoversItsRange) {
  for (const DType t : {DType::i64, DType::i32, DType::f32, DType::bf16}) {
    const auto v = randint(-3, 4, {2000}, t).to_vector<std::int64_t>();
    EXPECT_EQ(std::set<std::int64_t>(v.begin(), v.end()).size(), 7u) << t;
    EXPECT_EQ(*std::min_element(v.begin(), v.end()), -3) << t;
    EXPECT_EQ(*std::max_element(v.begin(), v.end()), 3) << t;
  }
  EXPECT_EQ(randint(5, 6, {3}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 5, 5}));
}

TEST(Randint, TakesTheWholeOfI64) {
  constexpr auto low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
  const auto v = randint(low, high, {1000}).to_vector<std::int64_t>();
  EXPECT_LT(*std::min_element(v.begin(), v.end()), low / 2);
  EXPECT_GT(*std::max_element(v.begin(), v.end()), high / 2);
}

TEST(Randint, RejectsBadInput) {
  EXPECT_THROWS_SAYING(randint(3, 3, {2}), ValueError, "randint");
  EXPECT_THROW(randint(0, 257, {2}, DType::u8), ValueError);
  EXPECT_THROW(randint(-1, 5, {2}, DType::u8), ValueError);
  EXPECT_EQ(randint(255, 256, {1}, DType::u8).item<int>(), 255);
}

TEST(Randperm, IsAPermutationAndShuffles) {
  const auto v = randperm(many).to_vector<std::int64_t>();
  auto sorted = v;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> order(many);
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(sorted, order);
  std::int64_t stayed = 0;
  for (std::size_t i = 0; i < v.size(); ++i) stayed += v[i] == static_cast<std::int64_t>(i);
  EXPECT_LT(stayed, 10);
  EXPECT_NE(randperm(many).to_vector<std::int64_t>(), v);
  EXPECT_EQ(randperm(0).numel(), 0);
  EXPECT_EQ(randperm(1).item<int>(), 0);
  EXPECT_THROW(randperm(-1), ValueError);
}

// Everything that is drawn, from one seed.
std::vector<std::vector<double>> draw_all() {
  Generator g(21);
  std::vector<std::vector<double>> all;
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    all.push_back(rand({many}, t, {}, g).to_vector<double>());
    all.push_back(randn({many}, t, {}, g).to_vector<double>());
  }
  all.push_back(randint(0, 1000, {many}, DType::i32, {}, g).to_vector<double>());
  all.push_back(randperm(many, {}, g).to_vector<double>());
  return all;
}

TEST(Random, BitsDoNotDependOnTheThreadCount) {
  const auto one = test::with_threads(1, draw_all);
  EXPECT_EQ(test::with_threads(2, draw_all), one);
  EXPECT_EQ(test::with_threads(3, draw_all), one);
}

TEST(Random, BitsDoNotDependOnStrides) {
  const Shape shape{3, 20, 7, 5};
  Generator g(4);
  const auto expected = rand(shape, DType::f32, {}, g).to_vector<double>();
  Tensor x = empty_strided(shape, channels_last_strides(shape), DType::f32, {});
  g.manual_seed(4);
  uniform_(x, 0, 1, g);
  EXPECT_EQ(x.to_vector<double>(), expected);
}

TEST(Random, AMetaTensorLeavesTheStreamAlone) {
  Generator g(1);
  rand({10}, DType::f32, Device::meta(), g);
  randn({10}, DType::f64, Device::meta(), g);
  randint(0, 3, {10}, DType::i64, Device::meta(), g);
  EXPECT_EQ(randperm(10, Device::meta(), g).device(), Device::meta());
  EXPECT_EQ(g.state().offset, 0u);
}

TEST(Random, FillingCountsAsAWrite) {
  Tensor x = zeros({4});
  const auto version = x.storage().version();
  normal_(x, 0, 1);
  EXPECT_GT(x.storage().version(), version);
}

}  // namespace
}  // namespace bytetape
