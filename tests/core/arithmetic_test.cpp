#include "bytetape/core/kernels/arithmetic.h"
#include "bytetape/core/kernels/pointwise.h"

#include <gtest/gtest.h>

#include <limits>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

template <class T>
class Extremes : public testing::Test {
 protected:
  using Values = std::vector<T>;
  static constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();

  // Long enough for vectors and a rest.
  template <auto Kernel>
  static T binary(T a, T b) {
    const Tensor y = empty({37}, dtype_of<T>);
    run<Kernel>(y.device(), filled(a).read(), filled(b).read(), y.write());
    return value_of(y);
  }
  template <auto Kernel>
  static T unary(T x) {
    const Tensor y = empty({37}, dtype_of<T>);
    run<Kernel>(y.device(), filled(x).read(), y.write());
    return value_of(y);
  }

 private:
  static Tensor filled(T v) { return from_vector(Values(37, v), {37}); }
  static T value_of(const Tensor& y) {
    const Values values = y.to_vector<T>();
    EXPECT_EQ(values, Values(37, values[0]));
    return values[0];
  }
};
using Signed = testing::Types<std::int64_t, std::int32_t>;
TYPED_TEST_SUITE(Extremes, Signed);

// What is undefined in C++ and wraps around here; UBSan's run would tell.
TYPED_TEST(Extremes, WrapAround) {
  using T = TypeParam;
  constexpr T low = TestFixture::low, high = TestFixture::high;
  EXPECT_EQ((TestFixture::template binary<&ArithmeticKernels::add>(high, 1)), low);
  EXPECT_EQ((TestFixture::template binary<&ArithmeticKernels::sub>(low, 1)), high);
  EXPECT_EQ((TestFixture::template binary<&ArithmeticKernels::mul>(low, -1)), low);
  EXPECT_EQ((TestFixture::template binary<&ArithmeticKernels::mul>(high, high)), T{1});
  EXPECT_EQ((TestFixture::template binary<&ArithmeticKernels::div>(low, -1)), low);
  EXPECT_EQ((TestFixture::template unary<&ArithmeticKernels::neg>(low)), low);
  EXPECT_EQ((TestFixture::template unary<&PointwiseKernels::abs>(low)), low);
  EXPECT_EQ((TestFixture::template unary<&PointwiseKernels::abs>(-high)), high);
}

}  // namespace
}  // namespace bytetape
