// When cuDNN's plans are made, and how long they are kept.
#include "bytetape/cuda/cudnn_graph.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
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

// Another kernel, with other bits, must not follow from it, neither now nor later.
TEST_F(CudaConvPlans, AreNotGivenUpForWantOfMemory) {
  for (std::int64_t n = 20; n < 26; ++n) {
    SCOPED_TRACE(n);
    const Tensor x = random_there({n, 96, 11, 11}), w = random_there({104, 96, 3, 3});
    const auto result = [&] { return product(x, w); };
    std::optional<std::vector<double>> in_need;
    {
      std::vector<Tensor> all;
      memory::allocator(gpu).empty_cache();
      for (std::size_t piece = std::size_t{8} << 30; piece >= 2 * mib; piece /= 2)
        while (cuda::mem_get_info(0).free > piece + 24 * mib) try {
            all.push_back(empty({static_cast<std::int64_t>(piece)}, DType::u8, gpu));
          } catch (const OutOfMemory&) { break; }
      try {
        in_need = result();
      } catch (const Error& e) {  // says so
        EXPECT_THAT(std::string(e.what()), testing::HasSubstr("conv2d"));
      }
    }
    memory::allocator(gpu).empty_cache();
    const std::vector<double> now = result();
    cuda::set_workspace_cap(gpu, 200 * mib);  // another plan's key, and by the same proposals its kernel
    const std::vector<double> expected = result();
    cuda::set_workspace_cap(gpu, std::nullopt);
    EXPECT_EQ(now, expected);
    EXPECT_EQ(in_need.value_or(expected), expected);
  }
}

}  // namespace
}  // namespace bytetape::test
