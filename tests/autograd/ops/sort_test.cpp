#include "bytetape/autograd/ops/sort.h"

#include <cmath>
#include <limits>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
using Indices = std::vector<std::int64_t>;

const std::vector<double> special{1, nan, -infinity, 0.0, infinity, -0.0, nan, -2};

TEST(Sort, PutsNaNLast) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = test::make_tensor(special, {8}, dtype);
    const auto [values, indices] = sort(x);
    EXPECT_EQ(indices.to_vector<std::int64_t>(), (Indices{2, 7, 3, 5, 0, 4, 1, 6})) << dtype;
    const std::vector<double> sorted = values.to_vector<double>();
    EXPECT_TRUE(std::isnan(sorted[6]) && std::isnan(sorted[7]));
    EXPECT_TRUE(!std::signbit(sorted[2]) && std::signbit(sorted[3])) << "equal zeros keep their signs and order";
    EXPECT_EQ(argsort(x, -1, true).to_vector<std::int64_t>(), (Indices{1, 6, 4, 0, 3, 5, 7, 2}));
    EXPECT_EQ(topk(x, 3).indices.to_vector<std::int64_t>(), (Indices{1, 6, 4}));
    EXPECT_EQ(topk(x, 4, 0, false).indices.to_vector<std::int64_t>(), (Indices{2, 7, 3, 5}));
  }
}

TEST(Sort, TakesTheFirstOfEqualElements) {
  const Tensor x = zeros({3, 1000}, DType::i64);
  for (const std::int64_t k : {1, 7, 999, 1000}) {
    Indices expected;
    for (int row = 0; row < 3; ++row)
      for (std::int64_t i = 0; i < k; ++i) expected.push_back(i);
    EXPECT_EQ(topk(x, k).indices.to_vector<std::int64_t>(), expected) << k;
  }
}

TEST(Sort, HasEmptyResults) {
  EXPECT_EQ(sort(zeros({3, 0})).values.shape(), Shape({3, 0}));
  EXPECT_EQ(sort(zeros({0, 3})).indices.shape(), Shape({0, 3}));
  const Tensor x = randn({4, 3}).set_requires_grad();
  const Tensor none = topk(x, 0).values;
  EXPECT_EQ(none.shape(), Shape({4, 0}));
  sum(none).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(12));
}

TEST(TopK, GivesItsGradientToTheChosen) {
  const Tensor x = test::make_tensor({3, 9, 9, 1}, {4}, DType::f64).set_requires_grad();
  const auto [values, indices] = topk(x, 2);
  EXPECT_FALSE(indices.requires_grad());
  values.backward(test::make_tensor({5, 7}, {2}, DType::f64));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 5, 7, 0}));
}

TEST(Sort, NoticesThatItsIndicesWereOverwritten) {
  const Tensor x = randn(5).set_requires_grad();
  const auto [values, indices] = sort(x);
  zero_(indices);
  EXPECT_THROWS_SAYING(sum(values).backward(), AutogradError, "was overwritten by 'zero_'");
}

}  // namespace
}  // namespace bytetape
