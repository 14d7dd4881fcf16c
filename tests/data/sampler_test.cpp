#include "bytetape/data/sampler.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "bytetape/core/factories.h"
#include "bytetape/data/loader.h"
#include "tests/data/files.h"

namespace bytetape::data {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;
using Indices = std::vector<std::int64_t>;

Indices counted(std::int64_t n) {
  Indices all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(SequentialSampler, Counts) {
  const SequentialSampler sampler(4);
  EXPECT_EQ(sampler.size(), 4);
  for (const std::uint64_t epoch : {0, 1}) EXPECT_THAT(sampler.order(epoch), ElementsAre(0, 1, 2, 3));
}

TEST(RandomSampler, IsAPermutationOfItsOwnInEachEpoch) {
  const RandomSampler sampler(100, {.seed = 5}), other(100, {.seed = 6});
  EXPECT_THAT(sampler.order(0), UnorderedElementsAreArray(counted(100)));
  EXPECT_EQ(sampler.order(0), sampler.order(0));
  EXPECT_NE(sampler.order(0), sampler.order(1));
  EXPECT_NE(sampler.order(0), other.order(0));
}

TEST(RandomSampler, MayTakeFewer) {
  const RandomSampler some(100, {.num_samples = 30, .seed = 5});
  EXPECT_EQ(some.size(), 30);
  const Indices all = RandomSampler(100, {.seed = 5}).order(2);
  EXPECT_EQ(some.order(2), Indices(all.begin(), all.begin() + 30));
}

TEST(RandomSampler, WithReplacementIsUniform) {
  const RandomSampler sampler(4, {.replacement = true, .num_samples = 4000, .seed = 3});
  EXPECT_EQ(sampler.size(), 4000);
  std::array<int, 4> count{};
  for (const std::int64_t i : sampler.order(7)) ++count.at(static_cast<std::size_t>(i));
  for (const int c : count) EXPECT_NEAR(c, 1000, 140);  // five standard deviations
  EXPECT_NE(sampler.order(7), sampler.order(8));
}

/// The shares of all ranks, dealt out in turn again.
Indices dealt(std::int64_t n, int world_size, std::uint64_t epoch, bool drop_last, bool shuffle = true) {
  std::vector<Indices> shares;
  for (int rank = 0; rank < world_size; ++rank) {
    const DistributedSampler sampler(
        n, {.rank = rank, .world_size = world_size, .shuffle = shuffle, .seed = 5, .drop_last = drop_last});
    shares.push_back(sampler.order(epoch));
    EXPECT_EQ(static_cast<std::int64_t>(shares.back().size()), sampler.size());
    EXPECT_EQ(shares.back().size(), shares.front().size());
  }
  Indices all;
  for (std::size_t i = 0; i < shares.front().size(); ++i)
    for (const Indices& share : shares) all.push_back(share[i]);
  return all;
}

TEST(DistributedSampler, SharesAnOrderOfAllRanks) {
  for (const int world_size : {1, 2, 3, 7}) {
    const Indices order = RandomSampler(23, {.seed = 5}).order(4);
    Indices repeated = dealt(23, world_size, 4, false), dropped = dealt(23, world_size, 4, true);
    EXPECT_EQ(static_cast<int>(repeated.size()), (23 + world_size - 1) / world_size * world_size);
    EXPECT_EQ(static_cast<int>(dropped.size()), 23 / world_size * world_size);
    for (std::size_t i = 0; i < repeated.size(); ++i) EXPECT_EQ(repeated[i], order[i % 23]) << world_size;
    for (std::size_t i = 0; i < dropped.size(); ++i) EXPECT_EQ(dropped[i], order[i]) << world_size;
  }
  EXPECT_EQ(dealt(4, 2, 0, false, false), counted(4));
  EXPECT_NE(dealt(40, 2, 0, false), dealt(40, 2, 1, false));
}

TEST(DistributedSampler, RepeatsFewExamplesAsOftenAsNeeded) {
  EXPECT_THAT(dealt(2, 5, 0, false, false), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(dealt(2, 5, 0, true), ElementsAre());
  EXPECT_THAT(dealt(0, 3, 0, false), ElementsAre());
}

TEST(DistributedSampler, RefusesRanksThatAreNotThere) {
  for (const auto& [rank, size] : {std::pair(2, 2), {-1, 2}, {0, 0}})
    EXPECT_THROW(DistributedSampler(4, {.rank = rank, .world_size = size}), ValueError) << rank << size;
  EXPECT_THROW(DistributedSampler(-1, {}), ValueError);
}

TEST(SubsetRandomSampler, ShufflesItsIndices) {
  Indices odd;
  for (std::int64_t i = 1; i < 60; i += 2) odd.push_back(i);
  const SubsetRandomSampler sampler(odd, 4);
  EXPECT_EQ(sampler.size(), 30);
  EXPECT_THAT(sampler.order(0), UnorderedElementsAreArray(odd));
  EXPECT_NE(sampler.order(0), odd);
  EXPECT_NE(sampler.order(0), sampler.order(1));
  EXPECT_EQ(sampler.order(1), SubsetRandomSampler(odd, 4).order(1));
}

TEST(Sampler, RefusesWhatCannotBeDrawn) {
  const auto message = [](std::int64_t n, const RandomSamplerOptions& o) {
    return error_of<ValueError>([&] { RandomSampler(n, o); });
  };
  EXPECT_EQ(message(-1, {}), "RandomSampler: expected 0 to 2^40 examples, got -1");
  EXPECT_EQ(message(4, {.num_samples = -2}), "RandomSampler: expected num_samples of 0 to 2^40, got -2");
  EXPECT_EQ(message(4, {.num_samples = 5}), "RandomSampler: cannot draw 5 of 4 examples without replacement");
  EXPECT_EQ(message(0, {.replacement = true, .num_samples = 1}),
            "RandomSampler: cannot draw 1 of 0 examples with replacement");
  EXPECT_EQ(error_of<ValueError>([] { SequentialSampler(-3); }),
            "SequentialSampler: expected 0 to 2^40 examples, got -3");
  EXPECT_TRUE(RandomSampler(0, {.replacement = true}).order(0).empty());
  constexpr std::int64_t most = std::int64_t{1} << 40;
  EXPECT_EQ(SequentialSampler(most).size(), most);
  EXPECT_EQ(RandomSampler(4, {.replacement = true, .num_samples = most}).size(), most);
  EXPECT_EQ(error_of<ValueError>([] { SequentialSampler(most + 1); }),
            "SequentialSampler: expected 0 to 2^40 examples, got 1099511627777");
  EXPECT_EQ(message(4, {.replacement = true, .num_samples = most + 1}),
            "RandomSampler: expected num_samples of 0 to 2^40, got 1099511627777");
}

struct Half final : Sampler {
  std::int64_t size() const override { return 10; }
  std::vector<std::int64_t> order(std::uint64_t) const override { return {0, 1, 2, 3, 4}; }
};
TEST(Sampler, HasAsManyExamplesAsItSays) {
  const TensorDataset dataset(zeros({10, 2}), zeros({10}, DType::i64));
  DataLoader loader(dataset, {.batch_size = 4, .sampler = std::make_shared<Half>()});
  EXPECT_THAT(error_of<ValueError>([&] {
                for (const auto& batch : loader) static_cast<void>(batch);
              }),
              testing::HasSubstr("expected an order of 10 examples from the sampler, which is its size(), got 5"));
}

}  // namespace
}  // namespace bytetape::data
