#include "bytetape/autograd/ops/random.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;

TEST(RandomNumbers, AreNoFunctionOfWhatTheyReplace) {
  const Tensor x = random_leaf({3});
  Tensor y = x * 2, z = x * 3;
  normal_(y);
  uniform_(z, -1, 1);
  sum(y + z + x).backward();
  EXPECT_TRUE(all_close(x.grad(), ones({3}, DType::f64)));
  Tensor leaf = random_leaf({3}), spread = expand(zeros({1}), {4});
  EXPECT_THROWS_SAYING(normal_(leaf), AutogradError, "normal_: cannot write into a leaf");
  EXPECT_THROWS_SAYING(uniform_(spread), ValueError, "share memory");
}

TEST(RandomNumbers, InPlaceOpsDrawWhatTheirFactoriesDo) {
  const Tensor x = zeros({1000}), y = zeros({1000});
  manual_seed(3);
  normal_(x, 3, 0.5);
  uniform_(y, 2, 4);
  manual_seed(3);
  EXPECT_TRUE(test::all_close(x, randn({1000}) * 0.5 + 3, 1e-6, 1e-6));
  EXPECT_TRUE(test::all_close(y, rand({1000}) * 2 + 2, 1e-6, 1e-6));
}

TEST(Multinomial, DrawsInProportion) {
  const Tensor p = from_vector<float>({1, 0, 5, 2}, 4);
  Generator generator(3);
  const std::int64_t n = 20'000;
  std::vector<double> counts(4);
  for (const std::int64_t place : multinomial(p, n, true, generator).to_vector<std::int64_t>())
    ++counts[static_cast<std::size_t>(place)];
  EXPECT_EQ(counts[1], 0);
  for (const auto& [place, expected] : {std::pair{0, 1 / 8.0}, {2, 5 / 8.0}, {3, 2 / 8.0}})
    EXPECT_NEAR(counts[static_cast<std::size_t>(place)] / static_cast<double>(n), expected, 0.015) << place;
}

// The first place has the probabilities themselves, and the second those of what is left.
TEST(Multinomial, DrawsWithoutReplacementInTheirOrder) {
  const std::int64_t n = 20'000;
  const Tensor p = expand(from_vector<float>({1, 0, 5, 2}, 4), {n, 4});
  Generator generator(3);
  const auto places = multinomial(p, 2, false, generator).to_vector<std::int64_t>();
  double first = 0, both = 0;  // rows that begin with place 2, and rows with places 2 and 3 in this order
  for (std::size_t i = 0; i < places.size(); i += 2) {
    EXPECT_TRUE(places[i] != 1 && places[i + 1] != 1 && places[i] != places[i + 1]);
    first += places[i] == 2;
    both += places[i] == 2 && places[i + 1] == 3;
  }
  EXPECT_NEAR(first / static_cast<double>(n), 5 / 8.0, 0.015);
  EXPECT_NEAR(both / static_cast<double>(n), 5 / 8.0 * 2 / 3, 0.015);
}

TEST(Multinomial, AdvancesItsGeneratorAlone) {
  const Tensor p = ones({3, 100}).set_requires_grad();
  Generator generator(3), twin(3);
  const auto draw = [&](Generator& g) { return multinomial(p, 5, false, g).to_vector<std::int64_t>(); };
  const auto first = draw(generator), second = draw(generator);
  EXPECT_NE(first, second);
  EXPECT_EQ(draw(twin), first);
  EXPECT_EQ(generator.state().offset, 2 * 3 * 100 * 2 / 4u);
  EXPECT_FALSE(multinomial(p, 5).requires_grad());
}

}  // namespace
}  // namespace bytetape
