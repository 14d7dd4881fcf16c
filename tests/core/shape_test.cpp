#include "bytetape/core/shape.h"

#include <type_traits>

#include "tests/support/expect.h"

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
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THROW(numel({large, large}), ShapeError);
  EXPECT_THROW(numel({0, large, large}), ShapeError) << "its strides would overflow";
  EXPECT_EQ(numel({std::int64_t{1} << 31, std::int64_t{1} << 31}), std::int64_t{1} << 62);
  EXPECT_THROWS_SAYING(numel({std::int64_t{1} << 31, (std::int64_t{1} << 31) + 1}), ShapeError, "too many elements");
  EXPECT_THROW(numel({0, -1}), ShapeError);
}

TEST(Shape, IsMadeOfOneInteger) {
  const Shape s = 5;
  EXPECT_EQ(s, (Shape{5}));
  EXPECT_EQ(Shape(std::size_t{3}), (Shape{3}));
  EXPECT_THROWS_SAYING(Shape(~0ull), ShapeError, "18446744073709551615 is too large");
  static_assert(!std::is_convertible_v<bool, Dims> && !std::is_convertible_v<double, Dims>);
}

TEST(Shape, HasAtMostEightDims) {
  Shape s = Dims::filled(8, 2);
  EXPECT_THROW(s.push_back(2), ShapeError);
  EXPECT_EQ(s.size(), 8);
}

TEST(Shape, OfMoreThanEightSizesThrowsWhereItIsUsed) {
  Shape nine{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Shape twenty(std::vector<std::int64_t>(20, 1)), copy = nine;
  for (const Shape& s : {nine, twenty, copy}) {
    EXPECT_THROW(s.size(), ShapeError);
    EXPECT_THROW(s.end(), ShapeError);
    EXPECT_THROW(s.back(), ShapeError);
    EXPECT_THROW((void)(s == s), ShapeError);
  }
  EXPECT_THROW(nine.end(), ShapeError);
  EXPECT_THROW(nine.push_back(1), ShapeError);
  EXPECT_THROW(nine.insert(0, 1), ShapeError);
  EXPECT_THROW(nine.erase(0), ShapeError);
  EXPECT_THROWS_SAYING(numel(nine), ShapeError,
                       "at most 8 dimensions, and these are more: (1, 2, 3, 4, 5, 6, 7, 8) and");
}

TEST(Shape, WrapsDims) {
  EXPECT_EQ(wrap_dim(-1, {2, 3, 4}), 2);
  EXPECT_THROWS_SAYING(wrap_dim(3, {2, 3, 4}), ShapeError, "dim 3 is out of range for shape (2, 3, 4) (-3 to 2)");
  EXPECT_EQ(wrap_dim(3, {2, 3, 4}, 1), 3);
  EXPECT_THROWS_SAYING(wrap_dim(-5, {2, 3, 4}, 1), ShapeError,
                       "dim -5 is out of range for a dim added to shape (2, 3, 4) (-4 to 3)");
  EXPECT_EQ(wrap_dims({-1, 0}, {2, 3, 4}), (Dims{0, 2}));
  EXPECT_THROW(wrap_dims({0, -3}, {2, 3, 4}), ShapeError);
}

TEST(Shape, StridesOfNothingAreThoseOfSizesOfOne) {
  EXPECT_EQ(channels_last_strides({2, 5, 3, 4}), (Strides{60, 1, 20, 5}));
  EXPECT_EQ(channels_last_strides({2, 0, 3, 4}), (Strides{12, 1, 4, 1}));
  EXPECT_EQ(channels_last_strides({2, 5, 0, 4}), (Strides{20, 1, 20, 5}));
  EXPECT_EQ(channels_last_strides({2, 5, 3, 0}), (Strides{15, 1, 5, 5}));
  EXPECT_EQ(contiguous_strides({2, 0, 3, 0}), (Strides{3, 3, 1, 1}));
}

TEST(Shape, KnowsContiguity) {
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 77, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
}

}  // namespace
}  // namespace bytetape
