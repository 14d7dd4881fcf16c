#include "bytetape/autograd/ops/index.h"

#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
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

TEST(Index, AssigningWritesIntoTheTensor) {
  const Tensor x = zeros({2, 3}, DType::f64), y = random_tensor({3});
  x[1] = y;
  EXPECT_EQ(x[1].to_vector<double>(), y.to_vector<double>());
  index(x, {0, Slice(1)}) = 0.5;
  EXPECT_EQ(x[0].to_vector<double>(), (std::vector<double>{0, 0.5, 0.5}));
  select(x, 1, 0) = 2;  // an integer, broadcast
  transpose(x, 0, 1)[2] = from_vector(std::vector<float>{3, 4});
  EXPECT_EQ(x[0].to_vector<double>(), (std::vector<double>{2, 0.5, 3}));
  EXPECT_EQ(x[1].to_vector<double>(), (std::vector<double>{2, y.to_vector<double>()[1], 4}));
  for (const auto& all : std::vector<std::vector<TensorIndex>>{{Ellipsis}, {Slice()}, {Slice(0)}, {}}) {
    const Tensor spaced = index(zeros({4, 3}), {Slice(0, None, 2)});
    index(spaced, all) = 0.5;
    EXPECT_EQ(spaced.to_vector<double>(), std::vector<double>(6, 0.5));
  }

  Tensor z = zeros({3});
  z = y;  // a named tensor becomes another one
  EXPECT_TRUE(z.is_same(y));
}

TEST(Index, AssigningIsRefusedToCopiesAndOnTheTape) {
  const Tensor x = zeros({2, 3}), mask = x == 0;
  EXPECT_THROWS_SAYING(index(x, {mask}) = 1, ValueError, "not a view");
  EXPECT_THROWS_SAYING(index(x, {from_vector(Indices{0})}) = ones({1, 3}), ValueError, "not a view");
  EXPECT_THROWS_SAYING(x + 1 = x, ValueError, "not a view");
  EXPECT_THROWS_SAYING(index(x, {zeros({2, 2}, DType::i64)}) = 1, ValueError, "not a view");
  EXPECT_THROWS_SAYING(flatten(transpose(x, 0, 1)) = 1, ValueError, "not a view");
  EXPECT_THROWS_SAYING(x[0] = ones({2}), ShapeError, "");
  const Tensor leaf = zeros({2}).set_requires_grad();
  EXPECT_THROWS_SAYING(leaf[0] = 1, AutogradError, "view on the tape");
  EXPECT_EQ(leaf.to_vector<double>(), (std::vector<double>{0, 0}));
}

TEST(Index, RejectsAnElementOfATensorThatIsOutOfRange) {
  for (const std::int64_t i : {-4, 3})
    EXPECT_THROWS_SAYING(index(zeros({2, 3}), {0, from_vector(Indices{0, i})}), ValueError,
                         detail::concat("index ", i, " is not in [-3, 3)"));
  EXPECT_THROWS_SAYING(index(zeros({2, 3}), {from_vector(Indices{1, 1}), from_vector(Indices{0, 3})}), ValueError,
                       "index 3 is not in [-3, 3)");
  EXPECT_THROWS_SAYING(index(zeros({0, 3}), {from_vector(Indices{0})}), ValueError, "index 0 is not in [0, 0)");
  EXPECT_THROWS_SAYING(index(zeros({2, 3}), {Tensor()}), ValueError, "undefined");
}

TEST(Index, ByTensorsSelectsElementsTogether) {
  const Tensor x = reshape(arange(24), {2, 3, 4}), rows = from_vector(Indices{1, 0, -1}),
               columns = from_vector(Indices{0, -1, 2});
  EXPECT_EQ(index(x, {Ellipsis, rows, columns}).to_vector<std::int64_t>(), (Indices{4, 3, 10, 16, 15, 22}));
  EXPECT_EQ(index(x, {1, rows, columns}).to_vector<std::int64_t>(), (Indices{16, 15, 22}));
  EXPECT_EQ(index(x, {Slice(), unsqueeze(rows, 1), columns}).shape(), (Shape{2, 3, 3}));
  EXPECT_EQ(index(x, {from_vector(Indices{1, 0, 1}), Slice(), columns}).shape(), (Shape{3, 3}));
  const Tensor mask = from_vector(std::vector<bool>{true, false, true});
  EXPECT_EQ(index(x, {0, mask, from_vector(Indices{1, 2})}).to_vector<std::int64_t>(), (Indices{1, 10}));
}

TEST(Index, ByAMaskSelectsWhatIsTrueInOrder) {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  const Tensor rows = from_vector(std::vector<bool>{true, false, true});
  const Tensor pairs = from_vector(std::vector<bool>{false, true, true, false, false, true}, {2, 3});
  EXPECT_EQ(index(x, {1, rows, 0}).to_vector<std::int64_t>(), (Indices{12, 20}));
  EXPECT_EQ(index(x, {Ellipsis, rows, Slice(1, 3)}).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(index(x, {None, Slice(), rows, None, Slice(None, None, 3)}).to_vector<std::int64_t>(),
            (Indices{0, 3, 8, 11, 12, 15, 20, 23}));
  EXPECT_EQ(index(x, {pairs}).to_vector<std::int64_t>(), (Indices{4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(index(x, {pairs, -1}).to_vector<std::int64_t>(), (Indices{7, 11, 23}));
  EXPECT_EQ(index(x, {x >= 22}).to_vector<std::int64_t>(), (Indices{22, 23}));
  EXPECT_EQ(index(x, {x < 0}).shape(), Shape{0});
}

TEST(Index, ByAMaskHasTheGradientOfWhere) {
  const Tensor x = transpose(random_tensor({5, 4, 3}), 0, 2).set_requires_grad();
  const Tensor mask = transpose(random_tensor({5, 4}), 0, 1) > 0;
  const Tensor y = index(x, {Slice(1, None), mask});
  ASSERT_EQ(y.shape(), (Shape{2, sum(to(mask, DType::i64)).item<std::int64_t>()}));
  sum(y * y).backward();
  const Tensor is_selected = cat({zeros({1, 4, 5}, DType::boolean), expand(mask, {2, 4, 5})}, 0);
  EXPECT_EQ(x.grad().to_vector<double>(), where(is_selected, 2 * x.detach(), 0).to_vector<double>());
  const auto f = [&](const std::vector<Tensor>& v) { return index(v[0], {Slice(1, None), mask}); };
  const GradcheckResult twice = gradgradcheck(f, {x});
  EXPECT_TRUE(twice) << twice.message;
}

TEST(Index, ByAMaskNeedsValues) {
  const Device meta = Device::meta();
  EXPECT_THROWS_SAYING(index(zeros({3}, DType::f32, meta), {zeros({3}, DType::boolean, meta)}), DeviceError,
                       "the size of the result depends on values, which bool(3,) on meta does not have");
}

TEST(Nonzero, ListsThePlacesInOrder) {
  const Tensor x = from_vector(std::vector<double>{0, 1, -0.0, NAN, 0, -2}, {2, 3});
  EXPECT_EQ(nonzero(x).shape(), (Shape{3, 2}));
  EXPECT_EQ(nonzero(x).to_vector<std::int64_t>(), (Indices{0, 1, 1, 0, 1, 2}));
  EXPECT_EQ(nonzero(transpose(x, 0, 1)).to_vector<std::int64_t>(), (Indices{0, 1, 1, 0, 2, 1}));
  EXPECT_EQ(nonzero(zeros({2, 0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(nonzero(ones({})).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(zeros({})).shape(), (Shape{0, 0}));
}

}  // namespace
}  // namespace bytetape::test
