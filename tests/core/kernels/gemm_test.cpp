#include "bytetape/core/cpu/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace bytetape::test {
namespace {

using cpu::Matrix;

/// The storage of a matrix, row-major or column-major with gaps, or with gaps in both dims.
enum class Layout { rows, columns, neither };
constexpr Layout layouts[] = {Layout::rows, Layout::columns, Layout::neither};

template <class T>
struct Stored {
  std::vector<T> values;
  std::int64_t rows, cols;
  Layout layout;

  /// With small whole numbers, whose sums are exact in any order, or with values from [-1, 1).
  Stored(std::int64_t rows, std::int64_t cols, Layout layout, bool whole)
      : values(static_cast<std::size_t>(2 * (rows + 3) * (cols + 3))), rows(rows), cols(cols), layout(layout) {
    static std::mt19937 random(3);
    std::uniform_int_distribution<int> small(-4, 4);
    std::uniform_real_distribution<double> any(-1, 1);
    for (T& x : values) x = static_cast<T>(whole ? small(random) : any(random));
  }
  Matrix<T> matrix() {
    if (layout == Layout::columns) return {values.data(), rows, cols, 1, rows + 3};
    const std::int64_t step = layout == Layout::rows ? 1 : 2;
    return {values.data(), rows, cols, step * (cols + 3), step};
  }
};

template <class T>
void multiply(Matrix<const T> a, Matrix<const T> b, Matrix<T> y) {
  std::vector<T> scratch(cpu::gemm_scratch<T>(a.rows, b.cols, a.cols) / sizeof(T));
  cpu::gemm<T>(a, b, y, scratch.data());
}

template <class T>
class Gemm : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Types);

TYPED_TEST(Gemm, AddsTheProductAndLeavesGaps) {
  using T = TypeParam;
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{0, 3, 2},
                                {3, 0, 2},
                                {3, 2, 0},
                                {1, 1, 1},
                                {5, 17, 3},
                                {6, 64, 9},
                                {7, 65, 255},
                                {13, 130, 256},
                                {143, 33, 257},
                                {145, 31, 5},
                                {150, 515, 20}})
    for (const Layout of_a : layouts)
      for (const Layout of_b : layouts) {
        SCOPED_TRACE(testing::Message() << m << "x" << k << " @ " << k << "x" << n << ", layouts "
                                        << static_cast<int>(of_a) << ", " << static_cast<int>(of_b));
        Stored<T> a(m, k, of_a, true), b(k, n, of_b, true), y(m, n, Layout::rows, true), expected = y;
        const Matrix<T> left = a.matrix(), right = b.matrix(), to = expected.matrix();
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t p = 0; p < k; ++p)
            for (std::int64_t j = 0; j < n; ++j)
              *to.block(i, j, 1, 1).data += *left.block(i, p, 1, 1).data * *right.block(p, j, 1, 1).data;
        multiply<T>(left, right, y.matrix());
        EXPECT_EQ(y.values, expected.values);
      }
}

TYPED_TEST(Gemm, BitsDoNotDependOnOtherRowsAndColumns) {
  using T = TypeParam;
  constexpr std::int64_t m = 160, n = 530, k = 300;
  for (const Layout of_a : layouts)
    for (const Layout of_b : layouts) {
      Stored<T> a(m, k, of_a, false), b(k, n, of_b, false), whole(m, n, Layout::rows, false), parts = whole;
      multiply<T>(a.matrix(), b.matrix(), whole.matrix());
      constexpr std::int64_t rows = 23, cols = 71;
      for (std::int64_t i = 0; i < m; i += rows)
        for (std::int64_t j = 0; j < n; j += cols) {
          const std::int64_t of_m = std::min(rows, m - i), of_n = std::min(cols, n - j);
          multiply<T>(a.matrix().block(i, 0, of_m, k), b.matrix().block(0, j, k, of_n),
                      parts.matrix().block(i, j, of_m, of_n));
        }
      EXPECT_EQ(whole.values, parts.values) << static_cast<int>(of_a) << ", " << static_cast<int>(of_b);
    }
}

TYPED_TEST(Gemm, KeepsNegativeZerosInEveryColumn) {
  using T = TypeParam;
  constexpr std::int64_t n = 133;
  const T tiny = std::numeric_limits<T>::min();
  const std::vector<T> a{tiny}, b(n, -tiny);
  std::vector<T> y(n, T{-0.0});
  multiply<T>({a.data(), 1, 1, 1, 1}, {b.data(), 1, n, n, 1}, {y.data(), 1, n, n, 1});
  for (const T each : y) EXPECT_EQ(std::signbit(each), std::signbit(y[0]));
}

TYPED_TEST(Gemm, ScratchIsBounded) {
  const std::size_t most = cpu::gemm_scratch<TypeParam>(1 << 20, 1 << 20, 1 << 20);
  EXPECT_LE(most, 1u << 20);
  EXPECT_LT(cpu::gemm_scratch<TypeParam>(8, 8, 8), 4096u);
}

}  // namespace
}  // namespace bytetape::test
