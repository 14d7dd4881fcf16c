#include "bytetape/core/shape.h"

#include <gtest/gtest.h>

namespace bytetape {
namespace {

TEST(Shape, PrintsLikePyTorch) {
  EXPECT_EQ(detail::concat(Shape{2, 3}), "(2, 3)");
  EXPECT_EQ(detail::concat(Shape{5}), "(5,)");
  EXPECT_EQ(detail::concat(Shape{}), "()");
}

TEST(Shape, BroadcastFollowsNumpy) {
  EXPECT_EQ(broadcast({4, 1, 3}, {2, 1}), (Shape{4, 2, 3}));
  EXPECT_EQ(broadcast({}, {0, 2}), (Shape{0, 2}));
  EXPECT_THROW(broadcast({2}, {3}), ShapeError);
  EXPECT_TRUE(broadcasts_to({2, 1}, {4, 2, 3}));
  EXPECT_FALSE(broadcasts_to({4, 2, 3}, {2, 3}));
  EXPECT_FALSE(broadcasts_to({3}, {1}));
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({3, 0, 5}), 0);
  EXPECT_THROW(numel({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
}

TEST(Shape, HasAtMostEightDims) {
  Shape s = Dims::filled(8, 2);
  EXPECT_THROW(s.push_back(2), ShapeError);
}

TEST(Shape, WrapsDims) {
  EXPECT_EQ(wrap_dim(-1, {2, 3, 4}), 2);
  EXPECT_THROW(wrap_dim(3, {2, 3, 4}), ShapeError);
  EXPECT_EQ(wrap_dims({-1, 0}, {2, 3, 4}), (Dims{0, 2}));
  EXPECT_THROW(wrap_dims({0, -3}, {2, 3, 4}), ShapeError);
}

TEST(Shape, KnowsContiguity) {
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 77, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
}

}  // namespace
}  // namespace bytetape
