#include "bytetape/cuda/runtime/per_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace bytetape::cuda {
namespace {

struct Pinned {  // can be neither copied nor moved
  int index;
  std::mutex mutex;
  explicit Pinned(int index) : index(index) {}
};

TEST(OncePerDevice, MakesOneObjectForEachDevice) {
  std::atomic<int> made = 0;
  const auto of = [&](int index) -> Pinned& {
    return once_per_device(index, [&made, index] {
      ++made;
      return Pinned(index);
    });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { of(0), of(255); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(of(0).index, 0);
  EXPECT_EQ(of(255).index, 255);
  EXPECT_EQ(&of(0), &of(0));
}

TEST(OncePerDevice, TriesAgainAfterAnException) {
  int calls = 0;
  const auto get = [&]() -> int& {
    return once_per_device(1, [&calls] {
      if (++calls == 1) throw std::runtime_error("first");
      return calls;
    });
  };
  EXPECT_THROW(get(), std::runtime_error);
  EXPECT_EQ(get(), 2);
  EXPECT_EQ(get(), 2);
}

}  // namespace
}  // namespace bytetape::cuda
