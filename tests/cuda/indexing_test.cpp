// What index_select and its gradient do on a GPU beyond the op list: many indices, and those that are none.
#include "bytetape/autograd/ops/indexing.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using Indices = std::vector<std::int64_t>;

class CudaIndexing : public GpuTest {
 protected:
  void TearDown() override {
    if (IsSkipped()) return;
    try {
      synchronize(gpu);  // what a failed test left is not the next one's
    } catch (const ValueError&) {}
  }
};

// As in an embedding: slices of words and of single elements, of which most come several times and one most often.
TEST_F(CudaIndexing, GradientsAreTheCpusAndRepeat) {
  for (const std::int64_t width : {1, 7, 64}) {
    SCOPED_TRACE(width);
    constexpr std::int64_t slices = 1000, count = 20'000;
    Indices values(count);
    for (std::int64_t j = 0; j < count; ++j) values[static_cast<std::size_t>(j)] = j % 3 ? j * j % slices : 7;
    const Tensor weight = random_tensor({slices, width}), gy = random_tensor({count, width});
    const auto evaluate = [&](Device device) {
      const Tensor x = clone(to(weight, device)).set_requires_grad();
      const Tensor y = index_select(x, 0, from_vector(values, count, device));
      y.backward(to(gy, device));
      return std::pair{y.detach(), x.grad()};
    };
    const auto [y, gradient] = evaluate(gpu);
    const auto [expected, expected_gradient] = evaluate(Device::cpu());
    EXPECT_EQ(y.to_vector<double>(), expected.to_vector<double>());
    EXPECT_TRUE(all_close(gradient, expected_gradient, 1e-12, 1e-11));
    EXPECT_EQ(gradient.to_vector<double>(), evaluate(gpu).second.to_vector<double>());
  }
}

TEST_F(CudaIndexing, LeavesAFaultInTheWordsOfTheCpu) {
  const Tensor index = from_vector(Indices{1, 0, -2, 9}, 4, gpu);
  const Tensor x = ones({3, 2}, DType::f32, gpu).set_requires_grad();
  const Tensor y = index_select(x, 0, index);
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "index_select: index -2 is not in [0, 3)");
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}));
  y.backward(ones_like(y));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1, 1, 1, 0, 0}));
  index_select(ones({3, 0}, DType::f32, gpu), 0, index);
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "index_select: index -2 is not in [0, 3)");
  one_hot(index, 3);
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "one_hot: index -2 is not in [0, 3)");
}

}  // namespace
}  // namespace bytetape::test
