// When cuDNN's plans are made, and how long they are kept.
#include "bytetape/cuda/conv/cudnn_graph.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

class CudaConvPlans : public GpuTest {
 protected:
  static Tensor random_there(const Shape& shape) { return channels_last(to(random_tensor(shape, DType::bf16), gpu)); }
  static std::vector<double> product(const Tensor& x, const Tensor& w) {
    return conv2d(x, w, {}, {.padding = 1}).to_vector<double>();
  }
};

// Of which a captured step may hold the code.
TEST_F(CudaConvPlans, AreBuiltAgainWhereTheyWereDropped) {
  const std::size_t most = cuda::most_graphs;
  const Tensor x = random_there({3, 32, 9, 9}), w = random_there({40, 32, 3, 3});
  const std::vector<double> expected = product(x, w);
  auto step = capture([&](const Tensor& image) { return conv2d(image, w, {}, {.padding = 1}); });
  for (int i = 0; i < 4; ++i) step(x);
  ASSERT_TRUE(step.is_captured());
  cuda::most_graphs = 3;
  for (std::int64_t n = 4; n < 12; ++n) product(random_there({n, 32, 9, 9}), w);
  EXPECT_EQ(step(x).to_vector<double>(), expected) << "of a plan that was dropped";
  EXPECT_EQ(product(x, w), expected) << "built again";
  cuda::most_graphs = most;
}

// The step is recorded when it is called for the third time.
TEST_F(CudaConvPlans, AreMadeWhereTheyAreFirstNeededInARecording) {
  const Tensor x = random_there({5, 48, 13, 13}), w = random_there({56, 48, 3, 3}), v = random_there({56, 48, 5, 5});
  int calls = 0;
  auto step = capture([&](const Tensor& image) {
    const bool is_recorded = ++calls > 2;
    return conv2d(image, is_recorded ? v : w, {}, {.padding = is_recorded ? 2 : 1});
  });
  std::vector<double> last;
  for (int i = 0; i < 5; ++i) last = step(x).to_vector<double>();
  ASSERT_TRUE(step.is_captured());
  EXPECT_EQ(last, conv2d(x, v, {}, {.padding = 2}).to_vector<double>());
}

/// All of the GPU's memory but a little of the driver's, and what `room` bytes twice over leave in the cache.
std::vector<Tensor> fill_gpu(std::int64_t room) {
  memory::allocator(gpu).empty_cache();
  const auto piece_of = [](std::int64_t bytes) { return empty({bytes}, DType::u8, gpu); };
  const Tensor kept = piece_of(room), more = piece_of(room);
  std::vector<Tensor> all;
  for (std::int64_t piece = std::int64_t{8} << 30; piece >= std::int64_t{2} << 20; piece /= 2)
    while (cuda::mem_get_info(0).free > static_cast<std::size_t>(piece) + 4 * mib) try {
        all.push_back(piece_of(piece));
      } catch (const OutOfMemory&) { break; }
  return all;
}

// Another kernel, with other bits, must not follow from it, neither now nor later.
TEST_F(CudaConvPlans, AreNotGivenUpForWantOfMemory) {
  struct {
    std::int64_t kernel;
    Conv2dParams params;
  } const shapes[] = {{3, {.padding = 1}}, {5, {.stride = 2}}, {1, {}}, {3, {.dilation = 2}}, {7, {.padding = 3}}};
  for (const auto& [kernel, params] : shapes) {
    SCOPED_TRACE(kernel);
    const Tensor x = random_there({9, 96, 21, 21}), w = random_there({104, 96, kernel, kernel});
    const auto result = [&, p = params] { return conv2d(x, w, {}, p); };
    Tensor in_need;
    {
      const std::vector<Tensor> all = fill_gpu(24 << 20);
      try {
        in_need = result();
        synchronize(gpu);
      } catch (const Error& e) { EXPECT_THAT(std::string(e.what()), testing::StartsWith("conv2d")); }
    }
    memory::allocator(gpu).empty_cache();
    const std::vector<double> now = result().to_vector<double>();
    const std::size_t most = cuda::most_graphs;
    cuda::most_graphs = 1;
    product(random_there({2, 64, 9, 9}), random_there({64, 64, 3, 3}));  // all others are dropped
    const std::vector<double> expected = result().to_vector<double>();
    cuda::most_graphs = most;
    EXPECT_EQ(now, expected);
    if (in_need.defined()) { EXPECT_EQ(in_need.to_vector<double>(), expected); }
  }
}

}  // namespace
}  // namespace bytetape::test
