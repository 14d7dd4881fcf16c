#include "bytetape/core/cpu/transpose.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "bytetape/core/dtype.h"

namespace bytetape::test {
namespace {

/// Returns n elements, each of which differs from its 200 predecessors.
template <class T>
std::vector<T> numbered(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i % 201);
  return values;
}

template <class T>
class Transpose : public testing::Test {};
using Elements = testing::Types<std::uint8_t, BFloat16, float, double>;
TYPED_TEST_SUITE(Transpose, Elements);

TYPED_TEST(Transpose, MovesElementsAndLeavesGaps) {
  for (const std::int64_t rows : {0, 1, 7, 8, 16, 17, 39})
    for (const std::int64_t cols : {0, 1, 5, 8, 23, 64}) {
      const std::int64_t x_step = rows + 3, y_step = cols + 2;
      const std::vector<TypeParam> x = numbered<TypeParam>(x_step * cols);
      std::vector<TypeParam> y(static_cast<std::size_t>(y_step * rows), TypeParam(250.0F)), expected = y;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j) expected[i * y_step + j] = x[j * x_step + i];
      cpu::transpose(x.data(), x_step, y.data(), y_step, rows, cols);
      EXPECT_EQ(y, expected) << rows << " rows, " << cols << " columns";
    }
}

TYPED_TEST(Transpose, PacksMatricesWithAnySteps) {
  const std::vector<TypeParam> x = numbered<TypeParam>(4000);
  for (const auto& [row_step, col_step] :
       std::array<std::array<std::int64_t, 2>, 4>{{{40, 1}, {1, 50}, {80, 2}, {2, 90}}}) {
    const cpu::Matrix<const TypeParam> from{x.data(), 21, 19, row_step, col_step};
    std::vector<TypeParam> to(21 * 20, TypeParam(250.0F)), expected = to;
    for (std::int64_t i = 0; i < 21; ++i)
      for (std::int64_t j = 0; j < 19; ++j) expected[i * 20 + j] = x[i * row_step + j * col_step];
    cpu::to_row_major(from, from.cols, 20, to.data());
    EXPECT_EQ(to, expected) << "steps of " << row_step << " and " << col_step;
  }
}

}  // namespace
}  // namespace bytetape::test
