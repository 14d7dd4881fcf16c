// Memory and streams of the driver, as another library has them, in exchange with ours. Work on one side is late, so
// that a wait that is missing gives other values.
#include "bytetape/core/dlpack.h"

#include <cuda_runtime_api.h>
#include <dlpack/dlpack.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/cuda/runtime/streams.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

class CudaDriverDlpack : public GpuTest {
 protected:
  static constexpr std::int64_t count = 1 << 20;
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    our_stream();  // makes the device current
    ASSERT_EQ(cudaStreamCreateWithFlags(&theirs_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), count), cudaSuccess);
    ASSERT_EQ(cudaMemset(data_, 1, count), cudaSuccess);
  }
  void TearDown() override {
    finish_releases();
    if (data_) cudaFree(data_);
    if (theirs_) cudaStreamDestroy(theirs_);
  }
  static cudaStream_t our_stream() { return cuda::streams_of(gpu.index).get(current_stream().number()); }
  /// Makes later work of a stream late.
  static void delay(cudaStream_t stream) {
    const auto wait = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
    ASSERT_EQ(cudaLaunchHostFunc(stream, wait, nullptr), cudaSuccess);
  }
  void fill_there(void* data, int value) {
    delay(theirs_);
    ASSERT_EQ(cudaMemsetAsync(data, value, count, theirs_), cudaSuccess);
  }
  static std::size_t external() { return memory::allocator(gpu).external().bytes; }

  cudaStream_t theirs_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

TEST_F(CudaDriverDlpack, MemoryOfTheDriverIsATensor) {
  const std::size_t before = external();
  {
    const Tensor x = from_blob(data_ + 1, {10, 20}, DType::u8, {.strides = {1, 30}, .device = gpu});
    EXPECT_EQ(external(), before + 9 + 19 * 30 + 1);
    EXPECT_EQ(sum(to(x, DType::i64)).item<int>(), 200);
    fill_(x, 3);
    EXPECT_EQ(sum(to(x, DType::i64)).item<int>(), 600);
  }
  EXPECT_EQ(external(), before);
}

TEST_F(CudaDriverDlpack, MemoryThatIsNotOnTheDeviceIsRefused) {
  std::vector<float> host(10);
  EXPECT_THROWS_SAYING(from_blob(host.data(), {10}, DType::f32, {.device = gpu}), DeviceError, "is not on cuda");
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  EXPECT_THROWS_SAYING(from_blob(pinned, {10}, DType::f32, {.device = gpu}), DeviceError, "is not on cuda");
  cudaFreeHost(pinned);
  EXPECT_NO_THROW(synchronize(gpu));
}

TEST_F(CudaDriverDlpack, ReleaseRunsOnceTheGpuIsDone) {
  static std::atomic<bool> is_done;
  is_done = false;
  std::promise<bool> released;
  const StreamScope scope(Stream(1));
  Tensor x =
      from_blob(data_, {count}, DType::u8, {.device = gpu, .release = [&] { released.set_value(is_done.load()); }});
  {
    const StreamScope other(Stream(2));
    delay(our_stream());
    x.read();
    ASSERT_EQ(cudaLaunchHostFunc(
                  our_stream(), [](void*) { is_done = true; }, nullptr),
              cudaSuccess);
  }
  x = Tensor();
  EXPECT_TRUE(released.get_future().get());
}

TEST_F(CudaDriverDlpack, OurStreamWaitsForTheirs) {
  std::array<std::int64_t, 1> shape{count}, stride{1};
  DLManagedTensorVersioned managed{};
  managed.version = {1, 0};
  managed.dl_tensor = {data_, {kDLCUDA, gpu.index}, 1, {kDLUInt, 8, 1}, shape.data(), stride.data(), 0};
  fill_there(data_, 7);
  const Tensor x = from_dlpack(&managed, {.stream = theirs_});
  EXPECT_EQ(sum(to(x, DType::i64)).item<std::int64_t>(), 7 * count);
}

TEST_F(CudaDriverDlpack, TheirStreamWaitsForOurs) {
  const Tensor x = zeros({count}, DType::u8, gpu);
  delay(our_stream());
  fill_(x, 5);
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = theirs_});
  std::vector<std::uint8_t> host(count);
  ASSERT_EQ(cudaMemcpyAsync(host.data(), managed->dl_tensor.data, count, cudaMemcpyDefault, theirs_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(theirs_), cudaSuccess);
  EXPECT_EQ(host, std::vector<std::uint8_t>(count, 5));
  managed->deleter(managed);
}

TEST_F(CudaDriverDlpack, ADeleterMayBeCalledBeforeTheirStreamIsDone) {
  Tensor x = zeros({count}, DType::u8, gpu);
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = theirs_});
  fill_there(managed->dl_tensor.data, 9);
  std::thread([&] { managed->deleter(managed); }).join();
  EXPECT_EQ(sum(to(x, DType::i64)).item<std::int64_t>(), 9 * count);
}

TEST_F(CudaDriverDlpack, FreedMemoryIsReusedBehindTheirStream) {
  Tensor x = zeros({count}, DType::u8, gpu);
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = theirs_});
  const void* const before = x.read().data();
  x = Tensor();
  fill_there(managed->dl_tensor.data, 9);
  std::thread([&] { managed->deleter(managed); }).join();
  const Tensor y = full({count}, 2, DType::u8, gpu);
  ASSERT_EQ(y.read().data(), before) << "the memory was not reused, so this shows nothing";
  ASSERT_EQ(cudaStreamSynchronize(theirs_), cudaSuccess);
  EXPECT_EQ(sum(to(y, DType::i64)).item<std::int64_t>(), 2 * count);
}

TEST_F(CudaDriverDlpack, NothingCrossesToAStreamThatIsRecorded) {
  const Tensor x = zeros({count}, DType::u8, gpu);
  DLManagedTensorVersioned* const before = to_dlpack(x, {.stream = theirs_});
  ASSERT_EQ(cudaStreamBeginCapture(theirs_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_THROWS_SAYING(to_dlpack(x, {.stream = theirs_}), CaptureError, "recording work on its stream");
  ASSERT_EQ(cudaMemsetAsync(data_, 3, count, theirs_), cudaSuccess);
  before->deleter(before);  // leaves the recording as it is
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(theirs_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  finish_releases();  // the stream must exist until then
  fill_(x, 4);
  EXPECT_EQ(sum(to(x, DType::i64)).item<std::int64_t>(), 4 * count);
}

TEST_F(CudaDriverDlpack, ReadOnlyMemoryIsFreedBehindTheirStream) {
  static std::atomic<bool> is_done;
  is_done = false;
  bool was_done = false;
  Tensor x = from_blob(data_, {count}, DType::u8,
                       {.device = gpu, .release = [&] { was_done = is_done; }, .is_read_only = true});
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = theirs_});
  x = Tensor();
  delay(theirs_);
  ASSERT_EQ(cudaLaunchHostFunc(
                theirs_, [](void*) { is_done = true; }, nullptr),
            cudaSuccess);
  managed->deleter(managed);
  finish_releases();
  EXPECT_TRUE(was_done);
}

TEST_F(CudaDriverDlpack, NothingCrossesWhileAStepIsCaptured) {
  const auto step = [](const auto& cross) {
    auto captured = capture([&](const Tensor& x) { return cross(x + x); });
    const Tensor x = zeros({count}, DType::u8, gpu);
    for (int i = 0; i < 2; ++i) captured(x);
    captured(x);
  };
  const auto exports = [](const Tensor& y) {
    DLManagedTensorVersioned* const managed = to_dlpack(y);
    managed->deleter(managed);
    return y;
  };
  EXPECT_THROWS_SAYING(step(exports), CaptureError, "exports a tensor");
  std::array<std::int64_t, 1> shape{count}, stride{1};
  DLManagedTensorVersioned managed{};
  managed.version = {1, 0};
  managed.dl_tensor = {data_, {kDLCUDA, gpu.index}, 1, {kDLUInt, 8, 1}, shape.data(), stride.data(), 0};
  EXPECT_THROWS_SAYING(step([&](const Tensor& y) { return y + from_dlpack(&managed); }), CaptureError,
                       "imports a tensor");
  EXPECT_NO_THROW(synchronize(gpu));
}

}  // namespace
}  // namespace bytetape::test
