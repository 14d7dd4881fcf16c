// Gradients that leaves get in 16 bits and backward widens at its end, in one launch.
#include "bytetape/bytetape.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "tests/cuda/gpu.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

/// Pairs to widen, kept.
struct Pairs {
  std::vector<Tensor> low, wide;
  void add(const Tensor& from, const Tensor& to) {
    low.push_back(from);
    wide.push_back(to);
  }
  void expect_widened() const {
    std::vector<ConstView> from;
    std::vector<View> to_views;
    for (std::size_t i = 0; i < low.size(); ++i) {
      from.push_back(low[i].read());
      to_views.push_back(wide[i].write());
    }
    run<&CopyKernels::widen_all>(gpu, from, to_views);
    for (std::size_t i = 0; i < low.size(); ++i)
      ASSERT_EQ(wide[i].to_vector<float>(), low[i].to_vector<float>()) << describe(low[i]) << " at " << i;
  }
};

class CudaWiden : public GpuTest {
 protected:
  static Tensor random_there(const Shape& shape, DType dtype) { return to(random_tensor(shape, dtype), gpu); }
};

TEST_F(CudaWiden, TakesAnySizeAndAlignment) {
  for (const std::int64_t most : {5000, 5 << 20}) {  // short chunks, and long ones
    Pairs pairs;
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const std::int64_t size : {std::int64_t{1}, std::int64_t{0}, std::int64_t{8}, std::int64_t{1023}, most + 5})
        for (const std::int64_t start : {0, 1, 4, 8})
          for (const std::int64_t to_start : {0, 1, 4})
            if (size < 1 << 20 || start + to_start < 2)
              pairs.add(narrow(random_there({size + 8}, dtype), 0, start, size),
                        narrow(zeros({size + 4}, DType::f32, gpu), 0, to_start, size));
    pairs.expect_widened();
  }
}

TEST_F(CudaWiden, WritesNothingElse) {
  const Tensor memory = zeros({3000}, DType::f32, gpu);
  Pairs pairs;
  for (const std::int64_t start : {3, 1500})
    pairs.add(full({1201}, 1, DType::bf16, gpu), narrow(memory, 0, start, 1201));
  pairs.expect_widened();
  EXPECT_EQ(sum(memory).item<float>(), 2402);
}

TEST_F(CudaWiden, TakesMorePairsThanOneLaunch) {
  Pairs pairs;
  for (std::int64_t i = 0; i < 2100; ++i) {
    const DType dtype = i % 3 ? DType::bf16 : DType::f16;
    pairs.add(random_there({1 + i % 7}, dtype), zeros({1 + i % 7}, DType::f32, gpu));
  }
  pairs.expect_widened();
}

// A hook sees the gradient when it is made: it is widened on its own then.
TEST_F(CudaWiden, GivesTheBitsOfEachOnItsOwn) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor image = random_there({8, 16, 12, 12}, DType::f32);
    const auto gradients = [&](const Tensor& first, const Tensor& second, bool hooked) {
      const Tensor a = channels_last(first).detach().set_requires_grad(),
                   b = channels_last(second).detach().set_requires_grad();
      if (hooked)
        for (const Tensor& w : {a, b}) w.register_hook([](const Tensor&) { return Tensor(); });
      for (int i = 0; i < 2; ++i) {  // the second is added
        const Autocast autocast(dtype);
        const Tensor y = conv2d(relu(conv2d(image, a, {}, {.padding = 1})), b);
        sum(y * y).backward();
      }
      return std::pair(a.grad().to_vector<float>(), b.grad().to_vector<float>());
    };
    const Tensor first = random_there({32, 16, 3, 3}, DType::f32), second = random_there({8, 32, 1, 1}, DType::f32);
    EXPECT_EQ(gradients(first, second, false), gradients(first, second, true));
  }
}

}  // namespace
}  // namespace bytetape::test
