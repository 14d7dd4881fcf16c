// What a kernel does to the device shows later, and lasts: each test has a process of its own.
#include <gmock/gmock.h>

#include <cstdlib>
#include <iostream>

#include "bytetape/bytetape.h"
#include "bytetape/core/device/external.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "tests/cuda/gpu.h"

namespace bytetape::test {
namespace {

class CudaLaunches : public GpuTest {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // CUDA does not survive a fork
    GpuTest::SetUp();
  }
  /// A tensor whose memory is not there.
  static Tensor nowhere() {
    Tensor x = empty({4}, DType::f32, gpu);
    x.impl()->storage = make_ref<Storage>(reinterpret_cast<void*>(std::uintptr_t{4096}), 16, gpu, nullptr);
    return x;
  }
  /// Ends the process, with what f throws on its standard error.
  template <class F>
  [[noreturn]] static void report(const F& f) {
    try {
      f();
      std::cerr << "nothing was thrown";
    } catch (const OutOfMemory& e) { std::cerr << "out of memory"; } catch (const Error& e) {
      std::cerr << e.what();
    }
    std::_Exit(3);
  }
};

TEST_F(CudaLaunches, NameTheOnlyOpThatCanHaveFailed) {
  EXPECT_EXIT(report([] {
                synchronize(gpu);
                const memory::ModuleScope module(memory::intern("net.act"));
                const Tensor y = relu(nowhere());
                synchronize(gpu);
              }),
              testing::ExitedWithCode(3),
              "relu in module .net.act.: CUDA: .*, left by a kernel of this op, as no other");
}

TEST_F(CudaLaunches, NameTheOpsThatMayHaveFailed) {
  EXPECT_EXIT(report([] {
                const Tensor x = ones({4}, DType::f32, gpu);
                synchronize(gpu);
                const Tensor y = relu(nowhere()), z = tanh(x);
                synchronize(gpu);
              }),
              testing::ExitedWithCode(3), "the newest first: tanh, relu. With CUDA_LAUNCH_BLOCKING=1");
}

TEST_F(CudaLaunches, OfAnotherDeviceAreNotNamed) {
  SKIP_WITHOUT_ANOTHER_GPU();
  EXPECT_EXIT(report([] {
                const Tensor x = ones({4}, DType::f32, another_gpu());
                synchronize(gpu);
                const Tensor y = relu(nowhere()), z = tanh(x);
                synchronize(gpu);
              }),
              testing::ExitedWithCode(3), "relu: CUDA: .*, left by a kernel of this op, as no other");
}

TEST_F(CudaLaunches, OfACapturedStepBearItsName) {
  EXPECT_EXIT(report([] {
                constexpr std::int64_t count = std::int64_t{16} << 20;
                const auto upstream = cuda::device_memory(gpu.index);
                Tensor x = empty({count}, DType::f32, Device::meta(gpu));
                void* data = upstream->allocate(x.nbytes());
                x.impl()->storage = make_ref<Storage>(data, x.nbytes(), gpu, nullptr);
                fill_(x, 1);
                auto step = capture([&] { return sum(x); });
                for (int i = 0; i < 3; ++i) step();
                synchronize(gpu);
                upstream->deallocate(data, x.nbytes());
                step();
                synchronize(gpu);
              }),
              testing::ExitedWithCode(3), "captured_step: CUDA: .*, left by a kernel of this op");
}

/// Tests' own processes inherit what is set here.
class CudaBlockingLaunches : public CudaLaunches {
 protected:
  void SetUp() override {
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    CudaLaunches::SetUp();
  }
  void TearDown() override { unsetenv("CUDA_LAUNCH_BLOCKING"); }
};

TEST_F(CudaBlockingLaunches, NameTheOpThatFailed) {
  EXPECT_EXIT(report([] {
                const Tensor x = tanh(ones({4}, DType::f32, gpu));
                relu(nowhere());
              }),
              testing::ExitedWithCode(3), "relu: CUDA: .*, left by a kernel of this op; the process");
}

TEST_F(CudaLaunches, ThatFailedAreNoWantOfMemory) {
  EXPECT_EXIT(report([] {
                relu(nowhere());
                try {
                  synchronize(gpu);
                } catch (const Error&) {}
                const Tensor large = empty({64 << 20}, DType::f32, gpu);
              }),
              testing::ExitedWithCode(3), "CUDA: ");
}

}  // namespace
}  // namespace bytetape::test
