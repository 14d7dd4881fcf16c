// Products of attention's tiles, of all shapes around whole vectors and blocks of rows.
#include "bytetape/core/cpu/attention/tile_product.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace bytetape::test {
namespace {

using cpu::Matrix;

template <class T>
std::vector<T> numbers(std::int64_t n) {
  static std::mt19937 random(3);
  std::uniform_int_distribution<int> small(-8, 8);  // whole numbers, so that sums are exact in any order
  std::vector<T> all(static_cast<std::size_t>(n));
  for (T& x : all) x = static_cast<T>(small(random));
  return all;
}

template <class T>
T at(const Matrix<const T>& x, std::int64_t i, std::int64_t j) {
  return x.data[i * x.row_step + j * x.col_step];
}

/// Adds a product to y (m, n) in rows of n + 3, whose gaps must stay as they are.
template <class T>
void expect_product(std::int64_t m, std::int64_t n, std::int64_t k, bool transposes_a) {
  const std::vector<T> a = numbers<T>((m + 2) * (k + 2)), b = numbers<T>(k * (n + 1)), start = numbers<T>(m * (n + 3));
  const Matrix<const T> left = transposes_a ? Matrix<const T>{a.data(), m, k, 1, m + 2}
                                            : Matrix<const T>{a.data(), m, k, k + 2, 1},
                        right{b.data(), k, n, n + 1, 1};
  std::vector<T> y = start, expected = start;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p)
        expected[static_cast<std::size_t>(i * (n + 3) + j)] += at(left, i, p) * at(right, p, j);
  cpu::add_product<T>(left, right, {y.data(), m, n, n + 3, 1});
  EXPECT_EQ(y, expected) << m << "x" << k << " @ " << k << "x" << n << (transposes_a ? ", a transposed" : "");
}

template <class T>
class TileProduct : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(TileProduct, Types);

TYPED_TEST(TileProduct, EqualsTheSum) {
  for (const std::int64_t m : {0, 1, 2, 5, 6, 7, 13})
    for (const std::int64_t n : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 67, 130})
      for (const std::int64_t k : {0, 1, 5, 33})
        for (const bool transposes_a : {false, true}) expect_product<TypeParam>(m, n, k, transposes_a);
}

TYPED_TEST(TileProduct, CopiesOnlyWhatHasNoUnitColStep) {
  const std::vector<TypeParam> x = numbers<TypeParam>(40 * 23);
  std::vector<TypeParam> buffer(37 * 20);
  const Matrix<const TypeParam> direct{x.data(), 20, 37, 40, 1},
      transposed = Matrix<const TypeParam>{x.data(), 20, 37, 40, 1}.transposed();
  EXPECT_EQ(cpu::with_unit_col_step(direct, buffer.data()).data, x.data());
  const auto copied = cpu::with_unit_col_step(transposed, buffer.data());
  EXPECT_EQ(copied.data, buffer.data());
  EXPECT_EQ(copied.col_step, 1);
  for (std::int64_t i = 0; i < 37; ++i)
    for (std::int64_t j = 0; j < 20; ++j) EXPECT_EQ(at(copied, i, j), at(transposed, i, j));
}

}  // namespace
}  // namespace bytetape::test
