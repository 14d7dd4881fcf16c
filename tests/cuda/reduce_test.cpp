// Means on a GPU: the bits of the sum, divided before it is rounded.
#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
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

}  // namespace
}  // namespace bytetape::test
