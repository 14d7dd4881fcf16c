// cat of many row-major tensors, which takes one launch.
#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using CudaCat = GpuTest;

TEST_F(CudaCat, OfManyTensorsEqualsTheCpus) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t count : {3, 40, 1500}) {  // tables of three sizes, and two tables
      std::vector<Tensor> here, there;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t start = i % 3, size = i % 11 == 10 ? 0 : 1 + 37 * i % 1100;
        const Tensor whole = i % 7 == 6 ? transpose(random_tensor({3, size + start}, dtype), 0, 1)
                                        : random_tensor({size + start, 3}, dtype);
        here.push_back(narrow(whole, 0, start, size));
        there.push_back(narrow(to(whole, gpu), 0, start, size));
      }
      EXPECT_EQ(cat(there).to_vector<double>(), cat(here).to_vector<double>()) << dtype << " " << count;
    }
}

}  // namespace
}  // namespace bytetape::test
