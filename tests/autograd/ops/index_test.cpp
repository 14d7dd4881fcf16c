#include "bytetape/autograd/ops/index.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using Indices = std::vector<std::int64_t>;

TEST(Index, ReadsAsInPython) {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  const auto values = [](const Tensor& y) { return y.to_vector<std::int64_t>(); };
  EXPECT_EQ(index(x, {}).shape(), x.shape());
  EXPECT_EQ(index(x, {1, 2, 3}).item<std::int64_t>(), 23);
  EXPECT_EQ(index(x, {Ellipsis, 1}).shape(), (Shape{2, 3}));
  EXPECT_EQ(index(x, {None, 0, Ellipsis, None}).shape(), (Shape{1, 3, 4, 1}));
  EXPECT_EQ(index(x, {0, Slice(1, 5), None, Slice(None, None, 3)}).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(values(index(x, {0, 0, Slice(-3, -1)})), (Indices{1, 2}));
  EXPECT_EQ(values(index(x, {0, 0, Slice(-9, 2)})), (Indices{0, 1}));
  EXPECT_EQ(values(index(x, {0, 0, Slice(2)})), (Indices{2, 3}));
  EXPECT_EQ(values(index(x, {0, 0, Slice(3, 1)})), Indices{});
  EXPECT_EQ(values(index(x, {0, 0, Slice(1, None, 2)})), (Indices{1, 3}));
  EXPECT_EQ(values(index(x, {0, 0, Slice(3, None, std::numeric_limits<std::int64_t>::max())})), Indices{3});
  EXPECT_EQ(values(index(x, {-1, from_vector(Indices{2, 0}), -1})), (Indices{23, 15}));
  EXPECT_EQ(index(x, {Slice(), zeros({5, 1, 2}, DType::i64)}).shape(), (Shape{2, 5, 1, 2, 4}));
}

TEST(Index, IsAViewWithoutATensor) {
  const Tensor x = zeros({3, 4});
  copy_(index(x, {Slice(None, None, 2), 1}), ones(2));
  fill_(x[1], 2);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0, 1, 0, 0, 2, 2, 2, 2, 0, 1, 0, 0}));
  EXPECT_EQ(x[-1][1].item<double>(), 1);
  EXPECT_THROWS_SAYING(x[3], ShapeError, "select: index 3 is out of range in dim 0 of f32(3, 4)");
}

TEST(Index, RejectsAnElementOfATensorThatIsOutOfRange) {
  EXPECT_THROWS_SAYING(index(zeros({2, 3}), {0, from_vector(Indices{-1})}), ValueError, "index -1 is not in [0, 3)");
  EXPECT_THROWS_SAYING(index(zeros({2, 3}), {Tensor()}), ValueError, "undefined");
}

}  // namespace
}  // namespace bytetape
