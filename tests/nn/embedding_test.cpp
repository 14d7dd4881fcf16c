#include "bytetape/nn/embedding.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

const std::vector<std::int64_t> places{3, 0, 3, 1, 2, 2};

TEST(Embedding, StartsAsPyTorchDoes) {
  manual_seed(3);
  const nn::Embedding table(400, 300);
  EXPECT_EQ(table.state_dict().size(), 1u);
  EXPECT_EQ(table.get_parameter("weight").shape(), (Shape{400, 300}));
  EXPECT_NEAR(mean(table.weight).item<double>(), 0, 0.02);
  EXPECT_NEAR(stddev(table.weight).item<double>(), 1, 0.01);
  EXPECT_EQ(table.describe(), "Embedding(400, 300)");
}

TEST(Embedding, LooksUpRowsForIndicesOfAnyShape) {
  nn::Embedding table(4, 5);
  const Tensor y = table(from_vector(places, {2, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(y[1][0].to_vector<float>(), table.weight[1].to_vector<float>());
}

TEST(Embedding, KeepsThePaddingAtZero) {
  nn::Embedding table(4, 5, {.padding_idx = -1});
  EXPECT_EQ(table.describe(), "Embedding(4, 5, padding_idx=3)");
  EXPECT_EQ(table.weight[3].to_vector<float>(), std::vector<float>(5, 0));
  sum(table(from_vector(places))).backward();
  EXPECT_EQ(table.weight.grad()[3].to_vector<float>(), std::vector<float>(5, 0));
  EXPECT_EQ(table.weight.grad()[2].to_vector<float>(), std::vector<float>(5, 2));
  for (const std::int64_t first : {0, -4}) {
    const nn::Embedding other(4, 5, {.padding_idx = first});
    EXPECT_EQ(other.describe(), "Embedding(4, 5, padding_idx=0)");
    EXPECT_EQ(other.weight[0].to_vector<float>(), std::vector<float>(5, 0));
  }
}

TEST(Embedding, RejectsBadArguments) {
  EXPECT_THROWS_SAYING(nn::Embedding(0, 2), ValueError, "Embedding needs positive sizes, got 0 and 2");
  EXPECT_THROWS_SAYING(nn::Embedding(2, 0), ValueError, "Embedding needs positive sizes, got 2 and 0");
  EXPECT_THROWS_SAYING(nn::Embedding(4, 2, {.padding_idx = 4}), ValueError,
                       "Embedding needs a padding_idx among its 4 rows, got 4");
  EXPECT_THROWS_SAYING(nn::Embedding(4, 2, {.padding_idx = -5}), ValueError,
                       "Embedding needs a padding_idx among its 4 rows, got -5");
}

}  // namespace
}  // namespace bytetape
