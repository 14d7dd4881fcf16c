// Each allocation of a training step fails in turn: nothing is lost, and the step can be taken again.
#include "bytetape/cuda/runtime/runtime.h"
#include "tests/cuda/gpu.h"
#include "tests/training/rationed.h"

namespace bytetape::test {
namespace {

using CudaOutOfMemoryResNet = GpuTest;

class CudaOutOfMemory : public GpuTest, public testing::WithParamInterface<Recipe> {};

TEST_P(CudaOutOfMemory, LosesNothing) {
  const StandIn there = rationed(detail::cuda_backend(), gpu, cuda::device_memory(gpu.index));
  const DefaultDevice here(gpu);
  for (const int disturbed : {0, 1}) {
    SCOPED_TRACE(detail::concat("step ", disturbed));
    expect_same_after_each_failure({GetParam(), false, disturbed});
  }
}

TEST_P(CudaOutOfMemory, LosesNothingWhileAStepIsCaptured) {
  const StandIn there = rationed(detail::cuda_backend(), gpu, cuda::device_memory(gpu.index));
  const DefaultDevice here(gpu);
  for (const int disturbed : {0, 1, 2}) {
    SCOPED_TRACE(detail::concat("call ", disturbed));
    expect_same_after_each_failure({GetParam(), true, disturbed});
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaOutOfMemory, testing::ValuesIn(recipes()), name_of);

TEST_F(CudaOutOfMemoryResNet, LosesNothing) {
  const StandIn there = rationed(detail::cuda_backend(), gpu, cuda::device_memory(gpu.index));
  const DefaultDevice here(gpu);
  expect_same_through_failures(resnet_recipe());
}

}  // namespace
}  // namespace bytetape::test
