#include "bytetape/nn/option_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace bytetape::nn {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const std::vector<std::string> tree{"0", "0.a", "0.b", "1", "1.a", "1.b", "1.b.c"};

TEST(CheapestOptions, SaveEnoughForTheLeastTime) {
  const std::vector<PricedOption> options{
      {"0", 100, 10}, {"0.a", 60, 4}, {"0.b", 40, 5}, {"1", 100, 12}, {"", 200, 30}};
  EXPECT_THAT(cheapest_options(options, tree, 50), ElementsAre(1));
  EXPECT_THAT(cheapest_options(options, tree, 100), UnorderedElementsAre(1, 2));
  EXPECT_THAT(cheapest_options(options, tree, 160), UnorderedElementsAre(1, 3));
  EXPECT_THAT(cheapest_options(options, tree, 200), UnorderedElementsAre(1, 2, 3));
  EXPECT_THAT(cheapest_options(options, tree, 201), IsEmpty());
  EXPECT_THAT(cheapest_options({}, tree, 1), IsEmpty());
}

TEST(CheapestOptions, AreNotTwoOfOneModule) {
  const std::vector<PricedOption> options{{"0", 50, 1}, {"0", 80, 9}, {"1", 40, 20}};
  EXPECT_THAT(cheapest_options(options, tree, 80), ElementsAre(1));
  EXPECT_THAT(cheapest_options(options, tree, 90), UnorderedElementsAre(0, 2));
}

bool is_within(const std::string& inner, const std::string& outer) {
  return outer.empty() || inner == outer || inner.starts_with(outer + ".");
}

// Sizes are multiples of the plan's units, so that nothing is rounded.
TEST(CheapestOptions, AreTheBestOfAllSets) {
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return random() % n; };
  for (int round = 0; round < 200; ++round) {
    std::vector<PricedOption> options;
    std::vector<std::string> paths = tree;
    paths.emplace_back();
    for (const std::string& path : paths)
      for (unsigned i = 0; i < below(3); ++i)
        options.push_back({path, 16 * (1 + below(8)), static_cast<double>(1 + below(50))});
    const std::size_t bytes = 256;
    double least = std::numeric_limits<double>::infinity();
    for (unsigned bits = 0; bits < 1u << options.size(); ++bits) {
      std::size_t saves = 0;
      double costs = 0;
      bool is_nested = false;
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (!(bits >> i & 1)) continue;
        saves += options[i].saves, costs += options[i].costs;
        for (std::size_t j = 0; j < i; ++j)
          is_nested |= bits >> j & 1 &&
                       (is_within(options[i].path, options[j].path) || is_within(options[j].path, options[i].path));
      }
      if (!is_nested && saves >= bytes) least = std::min(least, costs);
    }
    const std::vector<std::size_t> found = cheapest_options(options, tree, bytes);
    double costs = found.empty() ? std::numeric_limits<double>::infinity() : 0;
    for (const std::size_t i : found) costs += options[i].costs;
    EXPECT_EQ(costs, least) << "round " << round;
  }
}

}  // namespace
}  // namespace bytetape::nn
