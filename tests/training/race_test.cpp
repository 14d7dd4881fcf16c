// The whitening of the CIFAR-10 example's race, and the eigenvectors that it needs.
#include "examples/cifar10/race_eigh.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bytetape/bytetape.h"
#include "examples/cifar10/race_whiten.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::examples {
namespace {

TEST(Eigh, SolvesASymmetricMatrix) {
  constexpr std::int64_t n = 12;
  const Tensor x = test::random_tensor({n, n}), a = matmul(x, transpose(x, 0, 1));
  const Eigh e = eigh(a.to_vector<double>(), n);
  ASSERT_EQ(e.values.size(), std::size_t{n});
  EXPECT_TRUE(std::ranges::is_sorted(e.values));
  std::vector<double> rows;
  for (const auto& vector : e.vectors) rows.insert(rows.end(), vector.begin(), vector.end());
  const Tensor v = from_vector(rows, {n, n}), values = from_vector(e.values, {n, 1});
  EXPECT_TRUE(test::all_close(matmul(v, a), values * v, 1e-10, 1e-10));
  EXPECT_TRUE(test::all_close(matmul(v, transpose(v, 0, 1)), eye(n, DType::f64), 1e-12, 1e-12));
}

TEST(Eigh, TakesADiagonalMatrixAndReadsAboveTheDiagonal) {
  const Eigh e = eigh({3, 0, 0, 99, 1, 0, 99, 99, 2}, 3);
  EXPECT_EQ(e.values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(e.vectors[0], (std::vector<double>{0, 1, 0}));
  EXPECT_THROWS_SAYING(eigh({1, 2, 3}, 2), ShapeError, "eigh: expected 2 x 2 elements, got 3");
}

TEST(Whitening, MakesPatchesUncorrelatedOfUnitVariance) {
  const Tensor noise = to(test::random_tensor({50, 3, 12, 12}), DType::f32);
  const Tensor images =
      noise + roll(noise, {1}, {3}) + roll(noise, {1}, {1});  // neighbours and channels are correlated
  const Tensor filters = whitening_filters(images);
  ASSERT_EQ(filters.shape(), (Shape{24, 3, 2, 2}));
  EXPECT_TRUE(test::all_close(narrow(filters, 0, 12, 12), -narrow(filters, 0, 0, 12)));
  const Tensor y = conv2d(images, narrow(filters, 0, 0, 12));
  const Tensor rows = reshape(contiguous(permute(y, {1, 0, 2, 3})), {12, -1});
  const Tensor moments = matmul(rows, transpose(rows, 0, 1)) / static_cast<double>(rows.size(1));
  EXPECT_TRUE(test::all_close(moments, eye(12), 0, 0.02));
}

}  // namespace
}  // namespace bytetape::examples
