// Each allocation of a training step fails in turn: nothing is lost, and the step can be taken again.
#include "bytetape/cuda/runtime.h"
#include "tests/cuda/gpu.h"
#include "tests/training/rationed.h"

namespace bytetape::test {
namespace {

class CudaOutOfMemory : public GpuTest, public testing::WithParamInterface<Rule> {
 protected:
  static DType computed() { return GetParam() == Rule::sgd ? DType::f32 : DType::bf16; }
};

TEST_P(CudaOutOfMemory, LosesNothing) {
  const StandIn there = rationed(detail::cuda_backend(), gpu, cuda::device_memory(gpu.index));
  const DefaultDevice here(gpu);
  for (const int disturbed : {0, 1}) {
    SCOPED_TRACE(detail::concat("step ", disturbed));
    expect_same_after_each_failure({GetParam(), computed(), false, disturbed});
  }
}

TEST_P(CudaOutOfMemory, LosesNothingWhileAStepIsCaptured) {
  const StandIn there = rationed(detail::cuda_backend(), gpu, cuda::device_memory(gpu.index));
  const DefaultDevice here(gpu);
  for (const int disturbed : {0, 1, 2}) {
    SCOPED_TRACE(detail::concat("call ", disturbed));
    expect_same_after_each_failure({GetParam(), computed(), true, disturbed});
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaOutOfMemory, testing::Values(Rule::sgd, Rule::adam),
                         [](const auto& info) { return info.param == Rule::sgd ? "SgdInF32" : "AdamInBf16"; });

}  // namespace
}  // namespace bytetape::test
