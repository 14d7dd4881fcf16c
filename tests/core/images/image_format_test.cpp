#include "bytetape/core/images/image_format.h"

#include "bytetape/core/error.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

Tensor of_strides(const Shape& shape, const Strides& strides) { return empty({1000}).alias(shape, strides, 0); }

TEST(ImageFormat, IsThatOfTheImage) {
  using enum MemoryFormat;
  EXPECT_EQ(suggest_memory_format(of_strides({2, 3, 4, 5}, {60, 20, 5, 1})), contiguous);
  EXPECT_EQ(suggest_memory_format(of_strides({2, 3, 4, 5}, {60, 1, 15, 3})), channels_last);
  EXPECT_EQ(suggest_memory_format(of_strides({2, 3, 4, 5}, {160, 1, 40, 8})), channels_last) << "3 of 8 channels";
  EXPECT_EQ(suggest_memory_format(of_strides({2, 3, 4, 5}, {120, 40, 10, 2})), contiguous) << "every other column";
  EXPECT_EQ(suggest_memory_format(of_strides({2, 1, 4, 5}, {20, 1, 5, 1})), contiguous) << "both";
  EXPECT_EQ(suggest_memory_format(of_strides({3, 4, 5}, {1, 15, 3})), contiguous) << "no image";
}

TEST(ImageFormat, IsKept) {
  const Shape shape{2, 3, 4, 5};
  const Tensor x = empty(shape, MemoryFormat::channels_last, DType::u8, {}, memory::Role::input);
  EXPECT_EQ(x.strides(), channels_last_strides(shape));
  EXPECT_EQ(x.dtype(), DType::u8);
  EXPECT_EQ(x.storage().role(), memory::Role::input);
  EXPECT_TRUE(empty(shape, MemoryFormat::contiguous, DType::f32, {}).is_contiguous());
  EXPECT_EQ(empty({7}, MemoryFormat::contiguous, DType::f32, {}).shape(), Shape{7});
}

TEST(ImageFormat, RefusesShapesThatHaveNone) {
  const std::int64_t large = std::int64_t{1} << 31;
  EXPECT_THROW(empty({large, large, large, large}, MemoryFormat::channels_last, DType::f32, {}), ShapeError);
  EXPECT_THROW(empty({2, -1, 4, 5}, MemoryFormat::channels_last, DType::f32, {}), ShapeError);
}

}  // namespace
}  // namespace bytetape
