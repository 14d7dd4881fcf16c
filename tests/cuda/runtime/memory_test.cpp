// A GPU that runs out of memory says so, leaks nothing, and goes on.
#include <gmock/gmock.h>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

class CudaMemory : public GpuTest {
 protected:
  static memory::Allocator& books() { return memory::allocator(gpu); }
  static std::size_t reserved() { return books().statistics().reserved.current; }
  void TearDown() override {
    if (!IsSkipped()) books().set_limit(books().snapshot().capacity);
  }
};

TEST_F(CudaMemory, TellsItsContextApartFromOtherProcesses) {
  const auto context = [] {
    const auto used = books().outside();
    return used && used->others ? std::optional(static_cast<double>(used->bytes - *used->others)) : std::nullopt;
  };
  const auto before = context();
  if (!before) GTEST_SKIP() << "the driver does not tell who holds what";
  EXPECT_GT(*before, 50.0 * MiB);
  EXPECT_LT(*before, 4096.0 * MiB);
  const Tensor held = ones({64, 1 << 20}, DType::f32, gpu);  // 256 MiB
  EXPECT_NEAR(context().value(), *before, 64.0 * MiB) << "segments are no part of it";
}

TEST_F(CudaMemory, OutOfItExplains) {
  books().empty_cache();
  const std::size_t before = allocated(gpu);
  books().set_limit(reserved() + 64 * MiB);
  try {
    const memory::ModuleScope module(memory::intern("net.wide"));
    const Tensor held = ones({40, 1 << 18}, DType::f32, gpu);  // 40 MiB
    const Tensor more = held + held;
    FAIL() << "there was room for two";
  } catch (const OutOfMemory& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(detail::concat("out of memory on ", gpu,
                                                            ": 40.0 MiB (41,943,040 bytes) requested by add in "
                                                            "module 'net.wide'")));
    EXPECT_THAT(e.what(), testing::HasSubstr("a true shortage"));
    EXPECT_THAT(e.what(), testing::ContainsRegex("\n  outside the ledger .*CUDA's context(, libraries, other "
                                                 "processes| and libraries\n.*other processes .*)\n"));
    EXPECT_THAT(e.what(), testing::ContainsRegex("\n  device  .*\n  limit  "));
    EXPECT_GT(e.shortage().outside.value().bytes, 64 * MiB) << "CUDA's context alone takes more";
    EXPECT_EQ(e.shortage().device, gpu);
    EXPECT_EQ(e.shortage().requested, 40 * MiB);
  }
  EXPECT_EQ(allocated(gpu), before);
  EXPECT_EQ(sum(ones({40, 1 << 18}, DType::f32, gpu)).item<float>(), 40.0f * (1 << 18)) << "what fits still does";
}

TEST_F(CudaMemory, IsMarkedGuardedAndExplained) {
  const DefaultDevice here(gpu);
  nn::Linear fc(64, 32);
  const Tensor x = randn({16, 64});
  std::vector<Tensor> losses;
  sum(fc(x)).backward();
  fc.zero_grad();
  EXPECT_NO_THROW({
    const memory::Guard guard;
    sum(tanh(fc(x)));
  });
  const memory::Holdings before = memory::mark();
  for (int i = 0; i < 3; ++i) losses.push_back(sum(tanh(fc(x))));
  const memory::Difference grown = memory::diff(before, memory::mark());
  EXPECT_EQ(grown.name, to_string(gpu));
  EXPECT_THAT(why_alive(grown), testing::HasSubstr("  3 x tanh, which saved it <- the program, by a result "
                                                   "f32(16, 32) or what was made of it\n"));
}

TEST_F(CudaMemory, MoreThanTheDeviceHasIsRefused) {
  const std::size_t before = allocated(gpu);
  EXPECT_THROW(empty({std::int64_t{1} << 44}, DType::f32, gpu), OutOfMemory);
  books().set_limit(std::size_t{1} << 60);  // the limit lets it through: the driver is asked
  EXPECT_THROW(empty({std::int64_t{1} << 44}, DType::f32, gpu), OutOfMemory);
  EXPECT_EQ(allocated(gpu), before);
  EXPECT_EQ(sum(ones({1000}, DType::f32, gpu)).item<float>(), 1000) << "the refusal is no error of what comes next";
}

/// Takes what is free within the segments that live tensors of other tests keep, except pieces below 1 MiB.
std::vector<Tensor> filler(memory::Allocator& books) {
  std::vector<Tensor> taken;
  books.empty_cache();
  books.set_limit(books.statistics().reserved.current);
  for (std::size_t bytes = 256 * MiB; bytes >= MiB;) {
    try {
      taken.push_back(empty({static_cast<std::int64_t>(bytes)}, DType::u8, gpu));
    } catch (const OutOfMemory&) { bytes /= 2; }
  }
  books.set_limit(books.snapshot().capacity);
  return taken;
}

// Under ever higher limits a step fails in one place after another, until it goes through.
TEST_F(CudaMemory, AStepThatRanOutOfItCanBeTakenAgain) {
  const DefaultDevice here(gpu);
  manual_seed(3);
  nn::Sequential net(nn::Linear(64, 1024), nn::ReLU(), nn::Dropout(0.2), nn::Linear(1024, 1024), nn::ReLU(),
                     nn::Linear(1024, 5));
  const Tensor x = rand({2048, 64}), y = randint(0, 5, 2048);
  const PhiloxState start = default_generator().state();
  const auto step = [&] {
    default_generator().set_state(start);
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    std::vector<std::vector<float>> values{loss.to_vector<float>()};
    for (const Tensor& p : net.parameters()) values.push_back(p.grad().to_vector<float>());
    return values;
  };
  const auto undisturbed = step();
  net.zero_grad();
  const std::vector<Tensor> taken = filler(books());
  const std::size_t before = allocated(gpu);
  int failed = 0;
  for (std::size_t extra = 0;; extra += 2 * MiB) {
    ASSERT_LT(extra, 512 * MiB);
    books().set_limit(books().snapshot().capacity);
    books().empty_cache();
    books().set_limit(reserved() + extra);
    try {
      ASSERT_EQ(step(), undisturbed) << failed << " failures before";
      break;
    } catch (const OutOfMemory& e) {
      ++failed;
      EXPECT_THAT(e.what(), testing::HasSubstr(detail::concat("out of memory on ", gpu, ": ")));
      EXPECT_THAT(e.what(), testing::HasSubstr("requested by "));
    }
    net.zero_grad();
    ASSERT_EQ(allocated(gpu), before) << "with " << extra << " bytes to spare";
  }
  EXPECT_GE(failed, 3);
}

TEST_F(CudaMemory, ComesBackWithTheCache) {
  books().empty_cache();
  const std::size_t before = reserved();
  {
    const Tensor x = ones({1 << 20}, DType::f32, gpu);
    EXPECT_GT(reserved(), before);
  }
  books().empty_cache();
  EXPECT_EQ(reserved(), before);
}

}  // namespace
}  // namespace bytetape::test
