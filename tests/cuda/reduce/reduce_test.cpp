// Means on a GPU, which are sums divided before they are rounded, and extremes of long rows.
#include <limits>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaReduce : public GpuTest {};

TEST_F(CudaReduce, AMeanIsTheQuotientOfTheSum) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const Shape& shape : {Shape{3, 7}, Shape{300'001, 3}, Shape{5, 400'000}, Shape{128, 512}, Shape{0, 3}})
      for (const Dims& dims : {Dims{0}, Dims{1}, Dims{0, 1}}) {
        const Tensor x = to(random_tensor(shape, dtype), gpu);
        std::int64_t n = 1;
        for (const std::int64_t d : dims) n *= shape[static_cast<int>(d)];
        const Tensor y = mean(x, dims);
        const Autocast wide(DType::bf16);  // sums of 16 bits are f32
        const auto got = y.to_vector<double>(), expected = to(sum(x, dims) / n, dtype).to_vector<double>();
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_TRUE(got[i] == expected[i] || (got[i] != got[i] && expected[i] != expected[i]))
              << dtype << shape << dims << " at " << i;
      }
}

// Rows of one to all vectors of a cluster, with ties, NaN, infinities and both zeros, at any address.
TEST_F(CudaReduce, FindsTheFirstExtremeOfLongRows) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto expect_first = [](const Tensor& here, const Tensor& there) {
    const auto max_here = max_with_indices(here, 1), max_there = max_with_indices(there, 1);
    const auto min_here = min_with_indices(here, 1), min_there = min_with_indices(there, 1);
    EXPECT_EQ(max_there.indices.to_vector<std::int64_t>(), max_here.indices.to_vector<std::int64_t>());
    EXPECT_EQ(min_there.indices.to_vector<std::int64_t>(), min_here.indices.to_vector<std::int64_t>());
    EXPECT_TRUE(all_close(max_there.values, max_here.values, 0, 0));
    EXPECT_TRUE(all_close(min_there.values, min_here.values, 0, 0));
    EXPECT_EQ(argmax(there, 1).to_vector<std::int64_t>(), max_here.indices.to_vector<std::int64_t>());
  };
  const auto expect = [&](const Tensor& x) {
    const Tensor there = to(x, gpu);
    const auto odd = [](const Tensor& v) { return narrow(v, 1, 1, v.size(1) - 1); };
    expect_first(x, there);
    expect_first(odd(x), odd(there));
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Shape& shape :
         {Shape{1, 4096}, Shape{1, 50'257}, Shape{1, 50'304}, Shape{20, 50'257}, Shape{200, 5001}}) {
      SCOPED_TRACE(detail::concat(dtype, shape));
      Tensor x = random_tensor(shape, dtype);  // 16-bit elements have ties
      expect(x);
      const std::int64_t n = shape[1];
      for (const double value : {20.0, -20.0, infinity, -infinity, nan}) {
        for (const std::int64_t at : {n - 1, n / 2 + 3, n / 3}) {  // each earlier than the one before
          fill_(narrow(x, 1, at, 1), value);
          expect(x);
        }
      }
    }
  for (const double value : {0.0, infinity, -infinity, nan}) expect(full({2, 9001}, value, DType::bf16));
  Tensor zeros_of_both_signs = full({1, 9001}, -0.0);
  fill_(narrow(zeros_of_both_signs, 1, 5000, 100), 0.0);
  expect(zeros_of_both_signs);
}

}  // namespace
}  // namespace bytetape::test
