#include "bytetape/autograd/ops/view.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

Tensor counted(const Shape& shape) { return reshape(to(arange(numel(shape)), DType::f64), shape); }

bool shares(const Tensor& a, const Tensor& b) { return &a.storage() == &b.storage(); }

TEST(View, ShowsTheSameElements) {
  const Tensor x = counted({2, 3, 4});
  const Tensor y = view(x, {4, -1});
  EXPECT_TRUE(shares(x, y));
  EXPECT_EQ(y.shape(), (Shape{4, 6}));
  EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>());
  EXPECT_EQ(view(x, {1, 24, 1}).strides(), (Strides{24, 1, 1}));
}

TEST(View, FollowsStridesThatAllowIt) {
  const Tensor x = counted({4, 6, 5});
  const Tensor middle = narrow(x, 1, 2, 2);  // (4, 2, 5): the last two dims still walk as one
  EXPECT_EQ(view(middle, {2, 2, 10}).to_vector<double>(), middle.to_vector<double>());
  EXPECT_EQ(view(middle, {4, 1, 10, 1}).to_vector<double>(), middle.to_vector<double>());
  EXPECT_THROWS_SAYING(view(middle, {8, 5}), ShapeError,
                       "view: f64(4, 2, 5) on cpu with strides (30, 5, 1) cannot be seen as (8, 5) without a copy");
  const Tensor turned = transpose(x, 0, 2);  // (5, 6, 4)
  EXPECT_EQ(view(turned, {5, 2, 3, 4}).to_vector<double>(), turned.to_vector<double>());
  EXPECT_THROW(view(turned, {30, 4}), ShapeError);
  EXPECT_EQ(view(expand(counted({3, 1}), {3, 8}), {3, 2, 4}).strides(), (Strides{1, 0, 0}));
}

TEST(View, WorksOutSizes) {
  EXPECT_EQ(view(empty({0, 3}), {5, 0}).shape(), (Shape{5, 0}));
  EXPECT_EQ(view(empty({0, 3}), {-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(view(empty({}), {1, -1}).shape(), (Shape{1, 1}));
  EXPECT_THROWS_SAYING(view(empty({0, 3}), {-1, 0}), ShapeError, "does not fit");
  EXPECT_THROWS_SAYING(view(empty({2, 3}), {-2, 3}), ShapeError, "no negative sizes");
}

TEST(Reshape, CopiesOnlyWhereItMust) {
  const Tensor x = counted({4, 6});
  EXPECT_TRUE(shares(x, reshape(x, {24})));
  const Tensor turned = transpose(x, 0, 1), flat = reshape(turned, {-1});
  EXPECT_FALSE(shares(x, flat));
  EXPECT_EQ(flat.to_vector<double>(), turned.to_vector<double>());
}

TEST(Flatten, JoinsDims) {
  EXPECT_EQ(flatten(empty({})).shape(), (Shape{1}));
  EXPECT_EQ(flatten(empty({2, 3, 4, 5}), 1).shape(), (Shape{2, 60}));
  EXPECT_EQ(flatten(empty({2, 3, 4, 5}), 1, -2).shape(), (Shape{2, 12, 5}));
  EXPECT_EQ(flatten(empty({2, 0, 4}), 1).shape(), (Shape{2, 0}));
}

TEST(Permute, MovesDims) {
  const Tensor x = counted({2, 3, 4}), y = permute(x, {2, 0, -2});
  EXPECT_EQ(y.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(y.strides(), (Strides{1, 12, 4}));
}

TEST(Narrow, TakesARange) {
  const Tensor x = counted({3, 4});
  EXPECT_EQ(narrow(x, 1, 1, 2).to_vector<double>(), (std::vector<double>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(narrow(x, 0, -1, 1).to_vector<double>(), (std::vector<double>{8, 9, 10, 11}));
  EXPECT_EQ(narrow(x, 0, 3, 0).shape(), (Shape{0, 4}));
  EXPECT_THROW(narrow(x, 1, -5, 1), ShapeError);
  EXPECT_THROW(narrow(x, 1, 1, std::numeric_limits<std::int64_t>::max()), ShapeError);
}

TEST(Select, DropsADim) {
  const Tensor x = counted({3, 4});
  EXPECT_EQ(select(x, 0, -1).to_vector<double>(), (std::vector<double>{8, 9, 10, 11}));
  EXPECT_EQ(select(select(x, 1, 2), 0, 1).item<int>(), 6);
}

TEST(Expand, RepeatsWithoutMemory) {
  const Tensor x = counted({3, 1}), y = expand(x, {2, -1, 4});
  EXPECT_TRUE(shares(x, y));
  EXPECT_EQ(y.strides(), (Strides{0, 1, 0}));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(expand(x, {3, 0}).shape(), (Shape{3, 0}));
  EXPECT_THROWS_SAYING(expand(x, {2, 1}), ShapeError, "expand: f64(3, 1) on cpu cannot be expanded to (2, 1)");
  EXPECT_THROWS_SAYING(expand(x, {-1, 3, 1}), ShapeError, "cannot be expanded");
}

TEST(Squeeze, DropsAndAddsOnes) {
  const Tensor x = counted({1, 3, 1});
  EXPECT_EQ(squeeze(x, 0).shape(), (Shape{3, 1}));
  EXPECT_EQ(squeeze(x, 1).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(unsqueeze(x, 1).shape(), (Shape{1, 1, 3, 1}));
}

TEST(Views, StayWithinTheirDim) {
  const Tensor x = arange(3);
  for (const auto& part : {std::pair{0, -1}, {4, 0}, {4, -1}, {-4, 1}, {-4, 0}, {1, 3}, {3, 1}})
    EXPECT_THROWS_SAYING(narrow(x, 0, part.first, part.second), ShapeError, "are out of range in dim 0");
  EXPECT_EQ(narrow(x, 0, 3, 0).numel(), 0);
  EXPECT_EQ(narrow(x, 0, -3, 3).to_vector<int>(), (std::vector<int>{0, 1, 2}));
  for (const std::int64_t index : {-4, 3}) EXPECT_THROWS_SAYING(select(x, 0, index), ShapeError, "is out of range");
  EXPECT_EQ(select(x, 0, -3).item<int>(), 0);
}

}  // namespace
}  // namespace bytetape
