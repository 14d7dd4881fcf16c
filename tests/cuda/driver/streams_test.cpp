// What goes wrong between streams is made good or thrown; and who else sets the thread's device is noticed.
#include "bytetape/cuda/runtime/streams.h"

#include <cuda_runtime_api.h>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

class CudaDriverStreams : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    cuda::streams_of(gpu.index);  // makes the device current
    for (const int number : {0, 1}) streams_[number] = all_.get(number);
  }
  void begin_capture(int number) {
    ASSERT_EQ(cudaStreamBeginCapture(streams_[number], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  }
  void end_capture(int number) {
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(streams_[number], &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();
  }

  cuda::Streams all_;
  cudaStream_t streams_[2]{};
};

// An event from beside a capture cannot be waited for within.
TEST_F(CudaDriverStreams, WaitHereWhereOneCannotWaitForAnother) {
  constexpr std::size_t bytes = std::size_t{1} << 30;
  const Tensor memory = empty({bytes}, DType::u8, gpu);
  synchronize(gpu);
  for (int i = 0; i < 40; ++i) ASSERT_EQ(cudaMemsetAsync(memory.write().data(), i, bytes, streams_[0]), cudaSuccess);
  begin_capture(1);
  all_.order(0, 1);
  end_capture(1);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaSuccess);
  EXPECT_NO_THROW(all_.get(1));
}

TEST_F(CudaDriverStreams, ThrowOnceWhatNobodyCouldBeTold) {
  begin_capture(0);
  EXPECT_NE(cudaStreamSynchronize(streams_[0]), cudaSuccess);  // which spoils the capture
  all_.order(0, 1);
  EXPECT_THROW(all_.get(1), Error);
  EXPECT_NO_THROW(all_.get(1));
  all_.order(0, 1);
  EXPECT_THROW(all_.synchronize(), Error);
  end_capture(0);
  EXPECT_NO_THROW(all_.order(0, 1));
  EXPECT_NO_THROW(all_.get(1));
}

TEST_F(CudaDriverStreams, AreOfTheRightDeviceWhoeverHasSetAnother) {
  SKIP_WITHOUT_ANOTHER_GPU();
  const int here = gpu.index, there = another_gpu().index;
  Tensor x = ones({1000}, DType::f32, gpu), y = ones({1000}, DType::f32, another_gpu());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaSetDevice(there), cudaSuccess);
    x = x + 1;
    ASSERT_EQ(cudaSetDevice(here), cudaSuccess);
    y = y + 1;
    ASSERT_EQ(cudaSetDevice(there), cudaSuccess);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1000, static_cast<float>(i + 2)));
    ASSERT_EQ(cudaSetDevice(here), cudaSuccess);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, static_cast<float>(i + 2)));
  }
}

}  // namespace
}  // namespace bytetape::test
