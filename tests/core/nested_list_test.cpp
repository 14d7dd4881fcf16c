#include "bytetape/core/nested_list.h"

#include <cmath>

#include "tests/support/expect.h"

namespace bytetape {
namespace {

using Doubles = std::vector<double>;

TEST(NestedList, GivesTheShape) {
  EXPECT_EQ(tensor(2.5).shape(), (Shape{}));
  EXPECT_EQ(tensor({1}).shape(), (Shape{1}));
  EXPECT_EQ(tensor({{1}}).shape(), (Shape{1, 1}));
  EXPECT_EQ(tensor({1, 2, 3}).shape(), (Shape{3}));
  EXPECT_EQ(tensor({{1, 2, 3}}).shape(), (Shape{1, 3}));
  const Tensor x = tensor({{{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}, {{7.f, 8.f}, {9.f, 10.f}, {11.f, 12.f}}});
  EXPECT_EQ(x.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(x.to_vector<double>(), (Doubles{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(tensor({}).shape(), (Shape{0}));
  EXPECT_EQ(tensor({{}, {}}).shape(), (Shape{2, 0}));
}

TEST(NestedList, GivesTheDType) {
  EXPECT_EQ(tensor({1.f, 2.f}).dtype(), DType::f32);
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), DType::f32);
  EXPECT_EQ(tensor({1, 2}).dtype(), DType::i64);
  EXPECT_EQ(tensor({true, false}).dtype(), DType::boolean);
  EXPECT_EQ(tensor({true, false}).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(tensor({{1, 2}, {3, 4.5}}).dtype(), DType::f32);
  EXPECT_EQ(tensor({{1, 2}, {3, 4.5}}).to_vector<double>(), (Doubles{1, 2, 3, 4.5}));
  EXPECT_EQ(tensor({{1.5, 2}, {3, 4}}).dtype(), DType::f32);
  EXPECT_EQ(tensor({true, 2}).dtype(), DType::i64);
  EXPECT_EQ(tensor({2, true}).dtype(), DType::i64);
  EXPECT_EQ(tensor({}).dtype(), DType::f32);
  EXPECT_EQ(tensor((std::int64_t{1} << 60) + 1).item<std::int64_t>(), (std::int64_t{1} << 60) + 1);
}

TEST(NestedList, TakesTheDTypeAndDeviceAskedFor) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    EXPECT_EQ(tensor({1, 2}, t).dtype(), t);
    EXPECT_EQ(tensor({1, 2}, t).to_vector<double>(), (Doubles{1, 2})) << t;
  }
  EXPECT_EQ(tensor({0.1}, DType::f64).item<double>(), 0.1);
  EXPECT_TRUE(tensor({1, 2}, {}, Device::meta()).device().is_meta);
  EXPECT_EQ(tensor({1}, {}, Device::cpu(), memory::Role::input).storage().role(), memory::Role::input);
  EXPECT_EQ(tensor({1}).storage().role(), memory::Role::temporary);
}

TEST(NestedList, RefusesWhatDoesNotFit) {
  EXPECT_THROWS_SAYING(tensor({{1, 2}, {3}}), ShapeError,
                       "tensor: lists beside each other must have one shape, got (2,) and (1,)");
  EXPECT_THROWS_SAYING(tensor({{1, 2}, 3}), ShapeError, "got (2,) and ()");
  EXPECT_THROWS_SAYING(tensor({300}, DType::u8), DTypeError, "tensor: u8 cannot represent the number 300");
  EXPECT_THROWS_SAYING(tensor({1, 1.5}, DType::i64), DTypeError, "i64 cannot represent the number 1.5");
  EXPECT_THROWS_SAYING(tensor({{{{{{{{{1}}}}}}}}}), ShapeError, "at most 8 dimensions");
}

}  // namespace
}  // namespace bytetape
