// Calls cuDNN past the checks of the op.
#include "bytetape/cuda/attention/cudnn_attention.h"

#include "bytetape/bytetape.h"
#include "bytetape/cuda/attention/fused_attention.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaDriverAttention : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
#ifdef BYTETAPE_WITHOUT_CUDNN
    GTEST_SKIP() << "this build has no cuDNN";
#endif
  }
};

TEST_F(CudaDriverAttention, IsRefusedWithCudnnsReason) {
  const Tensor x = to(random_tensor({1, 2, 16, 12}, DType::bf16), gpu), y = empty_like(x),
               row = empty({1, 2, 16}, DType::f32, gpu);
  const AttentionArgs args{{.q = x.read(), .k = x.read(), .v = x.read()}, y.write(), row.write(), row.write()};
  const auto bytes = static_cast<std::int64_t>(cuda::FusedAttention(args, nullptr).bytes);
  const Tensor workspace = empty({bytes}, DType::u8, gpu);
  for (int i = 0; i < 2; ++i)
    EXPECT_THROWS_SAYING(cuda::run_fused(cuda::FusedAttention(args, workspace.write().data())), Error,
                         "cuDNN refuses this attention: ");
  EXPECT_NO_THROW(scaled_dot_product_attention(x, x, x, {}));
  EXPECT_NO_THROW(synchronize(gpu));
}

}  // namespace
}  // namespace bytetape::test
