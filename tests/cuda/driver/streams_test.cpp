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

// A mark is behind the first of two fills, and what waits for it is behind that one alone.
TEST_F(CudaDriverStreams, WaitForAMarkOfTheirRecordingAndForNoLaterWork) {
  const Tensor memory = empty({3, 512}, DType::u8, gpu);
  char* const at = static_cast<char*>(memory.write().data());
  const auto fill = [&](int row, cudaStream_t stream) {
    ASSERT_EQ(cudaMemsetAsync(at + 512 * row, row, 512, stream), cudaSuccess);
  };
  cuda::Streams recording;
  recording.begin_recording(0);
  fill(0, recording.get(15));
  const std::uint64_t mark = recording.recorded_marks().mark(recording, 15);
  fill(1, recording.get(15));
  EXPECT_TRUE(cuda::RecordedMarks::is_one(mark));
  EXPECT_TRUE(recording.recorded_marks().has(mark));
  EXPECT_FALSE(cuda::Streams().recorded_marks().has(mark));
  recording.recorded_marks().wait_mark(mark, recording, 0);
  fill(2, recording.get(0));
  cudaGraph_t graph = recording.end_recording();
  std::size_t count = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  std::vector<cudaGraphNode_t> nodes(count);
  ASSERT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
  ASSERT_EQ(count, 3u);
  const auto row_of = [&](cudaGraphNode_t node) {
    cudaMemsetParams p{};
    EXPECT_EQ(cudaGraphMemsetNodeGetParams(node, &p), cudaSuccess);
    return (static_cast<char*>(p.dst) - at) / 512;
  };
  for (const cudaGraphNode_t node : nodes) {
    std::size_t waits = 4;
    std::vector<cudaGraphNode_t> before(waits);
#if CUDART_VERSION < 13000
    ASSERT_EQ(cudaGraphNodeGetDependencies(node, before.data(), &waits), cudaSuccess);
#else
    ASSERT_EQ(cudaGraphNodeGetDependencies(node, before.data(), nullptr, &waits), cudaSuccess);
#endif
    ASSERT_EQ(waits, row_of(node) == 0 ? 0u : 1u);
    if (waits == 1) { EXPECT_EQ(row_of(before[0]), 0) << "only the first fill"; }
  }
  cudaGraphDestroy(graph);
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
