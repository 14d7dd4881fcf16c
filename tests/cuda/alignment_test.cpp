#include "bytetape/cuda/alignment.h"

#include <gtest/gtest.h>

namespace bytetape::cuda {
namespace {

TEST(Alignment, IsOfTheFirstElement) {
  alignas(32) float data[8] = {};
  const auto from = [&](int i) { return ConstView(data + i, DType::f32, Device::cpu(), {1}, {1}); };
  EXPECT_TRUE(is_aligned(from(0), 32));
  EXPECT_TRUE(is_aligned(from(4)));
  EXPECT_FALSE(is_aligned(from(4), 32));
  EXPECT_FALSE(is_aligned(from(2)));
  EXPECT_TRUE(is_aligned(from(2), 8));
}

TEST(Alignment, HoldsForViewsWithoutAnAddress) {
  alignas(16) float data[4] = {};
  const ConstView none{}, constant = ConstView::constant(1, DType::f32, Device::cpu(), {2}),
                          first(data, DType::f32, Device::cpu(), {1}, {1}),
                          second(data + 1, DType::f32, Device::cpu(), {1}, {1});
  EXPECT_TRUE(are_aligned({&none, &constant, &first}));
  EXPECT_FALSE(are_aligned({&none, &first, &second}));
}

}  // namespace
}  // namespace bytetape::cuda
