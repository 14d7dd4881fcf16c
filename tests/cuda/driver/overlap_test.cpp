// Tests that streams do not wait for each other: one stream is held, and another one completes its work.
#include <cuda_runtime_api.h>

#include <chrono>
#include <future>
#include <thread>

#include "bytetape/bytetape.h"
#include "bytetape/cuda/runtime/streams.h"
#include "tests/cuda/gpu.h"

namespace bytetape::test {
namespace {

using namespace std::chrono_literals;

constexpr auto deadline = 10s;

/// Holds the later work of a stream while it lives, for at most `deadline`.
class Held {
 public:
  explicit Held(Stream stream) {
    const auto wait = [](void* self) { static_cast<Held*>(self)->ended_.get_future().wait_for(deadline); };
    EXPECT_EQ(cudaLaunchHostFunc(cuda::streams_of(gpu.index).get(stream.number()), wait, this), cudaSuccess);
    stream_ = stream.number();
  }
  ~Held() {
    ended_.set_value();
    cudaStreamSynchronize(cuda::streams_of(gpu.index).get(stream_));
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  std::promise<void> ended_;
  int stream_;
};

bool is_done(Stream stream) {
  const bool is_done = cudaStreamQuery(cuda::streams_of(gpu.index).get(stream.number())) == cudaSuccess;
  cudaGetLastError();  // "not ready" must not be reported by the next launch
  return is_done;
}
/// Whether a stream completes all its work before half the deadline.
bool completes(Stream stream) {
  const auto end = std::chrono::steady_clock::now() + deadline / 2;
  while (!is_done(stream) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return is_done(stream);
}

class CudaOverlap : public GpuTest {};

TEST_F(CudaOverlap, CopiesDoNotWaitForTheWork) {
  const Tensor x = pin_memory(ones({16 << 20}, DType::u8), gpu);
  Tensor y;
  const auto copy = [&] {
    const StreamScope scope(Stream::for_copies());
    y = to(x, gpu);
  };
  copy();  // takes memory
  synchronize(gpu);
  {
    const Held work(Stream(0));
    copy();
    EXPECT_TRUE(completes(Stream::for_copies()));
    EXPECT_FALSE(is_done(Stream(0)));
  }
  EXPECT_EQ(sum(y).item<std::int64_t>(), 16 << 20);
}

// Later work of the stream for copies delays no other stream.
TEST_F(CudaOverlap, WhoWaitsForASavedTensorWaitsForNoLaterCopy) {
  const Tensor x = rand({1 << 20}, DType::f32, gpu);
  const auto first = x.to_vector<float>();
  for (int i = 0; i < 2; ++i) {  // memory is taken in the first round
    x.storage().copy_out();
    {
      const Held copies(Stream::for_copies());
      x.storage().evict();
      fill_(empty({1 << 20}, DType::f32, gpu), -1);  // in its memory
      EXPECT_TRUE(completes(Stream(0))) << i;
      EXPECT_FALSE(is_done(Stream::for_copies())) << i;
    }
    {
      const StreamScope copies(Stream::for_copies());
      x.storage().restore();
    }
    {
      const Held copies(Stream::for_copies());
      const Tensor y = x + x;
      EXPECT_TRUE(completes(Stream(0))) << i;
      EXPECT_FALSE(is_done(Stream::for_copies())) << i;
    }
    EXPECT_EQ(x.to_vector<float>(), first);
    synchronize(gpu);
  }
}

}  // namespace
}  // namespace bytetape::test
