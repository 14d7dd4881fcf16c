// Which devices there are, and many threads on one.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using CudaDevice = GpuTest;

TEST_F(CudaDevice, IsCounted) { EXPECT_GE(cuda::device_count(), 1); }

TEST_F(CudaDevice, ThatIsNotThereIsOneClearSentence) {
  for (int again = 0; again < 2; ++again) {
    std::string words;
    try {
      empty({1}, DType::f32, Device::cuda(200));
    } catch (const DeviceError& e) { words = e.what(); }
    EXPECT_THAT(words, testing::HasSubstr(detail::concat("there is no cuda:200, only ", cuda::device_count())));
    EXPECT_THAT(words, testing::Not(testing::HasSubstr("\n")));
  }
  EXPECT_FALSE(is_available(Device::cuda(200)));
  EXPECT_THROW(synchronize(Device::cuda(200)), DeviceError);
  EXPECT_EQ(sum(ones({10}, DType::f32, gpu)).item<float>(), 10) << "the one that is there still works";
}

TEST_F(CudaDevice, IsDescribed) {
  const cuda::DeviceProperties p = cuda::get_device_properties();
  EXPECT_THAT(p.name, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(p.name, cuda::get_device_name());
  EXPECT_GE(p.major, 8);
  EXPECT_GT(p.multi_processor_count, 0);
  const auto [free, total] = cuda::mem_get_info();
  EXPECT_GT(free, 0u);
  EXPECT_LT(free, total);
  EXPECT_EQ(total, memory::snapshot(gpu).capacity);
  EXPECT_NEAR(static_cast<double>(p.total_memory), static_cast<double>(total), 0.1 * static_cast<double>(total));
}

// Needs neither a GPU nor a toolkit.
TEST(CudaDevices, ThatAreNotThereAreOneClearSentence) {
  const int beyond = cuda::device_count();
  for (const auto& ask : std::initializer_list<std::function<void(int)>>{
           [](int i) { cuda::get_device_properties(i); }, [](int i) { cuda::get_device_name(i); },
           [](int i) { cuda::mem_get_info(i); }, [](int i) { cuda::Event{i}; }})
    for (const int index : {beyond, -1, -200, 1000}) {
      try {
        ask(index);
        ADD_FAILURE() << "there is a device " << index;
      } catch (const DeviceError& e) {
        EXPECT_THAT(e.what(), testing::AnyOf(testing::HasSubstr(detail::concat("there is no cuda:", index)),
                                             testing::HasSubstr("cuda cannot be used: "),
                                             testing::HasSubstr("this build has no CUDA")));
        EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr("\n")));
      }
    }
}

// The driver is asked once, so this has a process of its own.
TEST(CudaDevices, ThatAreHiddenAreOneClearSentence) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* set = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::optional<std::string> before = set ? std::optional<std::string>(set) : std::nullopt;
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  const auto ask = [] {
    try {
      zeros({2}, DType::f32, gpu);
    } catch (const DeviceError& e) { std::cerr << cuda::device_count() << " devices: " << e.what(); }
    std::_Exit(3);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(3),
              "^0 devices: .*(cuda cannot be used: no NVIDIA driver is loaded|cuda cannot be used: there is no NVIDIA "
              "GPU that this process may use|this build has no CUDA).*$");
  before ? setenv("CUDA_VISIBLE_DEVICES", before->c_str(), 1) : unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(CudaDevice, ThatIsNotThereCanBePredicted) {
  const Tensor x = ones({10, 10}, DType::f32, Device::meta(Device::cuda(200)));
  EXPECT_EQ(matmul(x, x).shape(), (Shape{10, 10}));
}

/// What a thread computes, forward and backward, in f64 and (convolution, through another library) f32.
struct Work {
  Tensor a, b, image, kernel;

  Work() : a(random_tensor({37, 53})), b(random_tensor({53, 29})) {
    image = random_tensor({3, 8, 11, 11}, DType::f32);
    kernel = random_tensor({16, 8, 3, 3}, DType::f32);
  }
  std::vector<std::vector<double>> run(Device device) const {
    Tensor x = clone(to(a, device)), w = clone(to(b, device));
    x.set_requires_grad();
    w.set_requires_grad();
    const Tensor p = softmax(matmul(x, w), 1);
    const Tensor y = sum(p * p + layer_norm(relu(matmul(x, w)), {29}));
    y.backward();
    const Tensor c = conv2d(to(image, device), to(kernel, device), {}, {.padding = 1});
    const Tensor m = mean(max_pool2d(c, {.kernel = 2, .stride = 2}), {2, 3});
    return {y.detach().to_vector<double>(), x.grad().to_vector<double>(), w.grad().to_vector<double>(),
            m.to_vector<double>()};
  }
};

TEST_F(CudaDevice, ServesManyThreadsAtOnce) {
  constexpr std::size_t threads = 8;
  const std::vector<Work> work(threads);
  std::vector<std::vector<std::vector<double>>> expected;
  for (const Work& w : work) expected.push_back(w.run(Device::cpu()));
  const std::size_t before = allocated(gpu);
  for (int crew = 0; crew < 3; ++crew) {  // threads end, and others come
    std::vector<std::thread> crew_members;
    for (std::size_t t = 0; t < threads; ++t)
      crew_members.emplace_back([&, t] {
        try {
          const auto first = work[t].run(gpu);
          for (std::size_t k = 0; k < first.size(); ++k) {
            const double most = k == 3 ? 1e-4 : 1e-9;
            EXPECT_TRUE(all_close(first[k], expected[t][k], most, most)) << "thread " << t << ", value " << k;
          }
          for (int round = 0; round < 20; ++round)
            EXPECT_EQ(work[t].run(gpu), first) << "thread " << t << ", round " << round;
        } catch (const std::exception& e) { ADD_FAILURE() << "thread " << t << ": " << e.what(); }
      });
    for (std::thread& t : crew_members) t.join();
  }
  EXPECT_EQ(allocated(gpu), before);
}

// What one thread made, another uses as soon as it hears of it: work of all threads is in one order.
TEST_F(CudaDevice, HandsTensorsFromThreadToThread) {
  for (int round = 0; round < 20; ++round) {
    Tensor x;
    std::thread([&] {
      const Tensor a = full({1024, 1024}, 2, DType::f32, gpu);
      x = matmul(a, a) + 1;
    }).join();
    double value = 0;
    std::thread([&] { value = max(x).item<double>() + min(x).item<double>(); }).join();
    EXPECT_EQ(value, 2 * 4097);
  }
}

}  // namespace
}  // namespace bytetape::test
