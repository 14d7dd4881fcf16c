// Every byte comes from the allocator: nothing else takes 4 KiB or more during a training step.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/tensor.h"
#include "tests/memory/escapes.h"
#include "tests/training/steps.h"

namespace bytetape {
namespace {

using test::count_escapes;
using test::Escapes;

// Keeps the compiler from seeing that memory is not used.
void* volatile sink;
void use(void* p) { sink = p; }

TEST(Escapes, AreSeenWhoeverMakesThem) {
  const std::vector<std::pair<const char*, std::function<void()>>> ways{
      {"malloc", [] { use(std::malloc(8192)), std::free(sink); }},
      {"calloc", [] { use(std::calloc(2, 4096)), std::free(sink); }},
      {"realloc", [] { use(std::realloc(std::malloc(10), 8192)), std::free(sink); }},
      {"aligned_alloc", [] { use(std::aligned_alloc(64, 8192)), std::free(sink); }},
      {"posix_memalign",
       [] {
         void* p = nullptr;
         if (posix_memalign(&p, 64, 8192) == 0) std::free(p);
       }},
      {"mmap",
       [] {
         use(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
         munmap(sink, 8192);
       }},
      {"malloc", [] { use(::operator new(8192)), ::operator delete(sink); }},
      {"malloc", [] { use(std::vector<double>(1024).data()); }},
  };
  for (const auto& [function, way] : ways) {
    const Escapes e = count_escapes(way);
    ASSERT_EQ(e.calls.size(), 1u) << function << ": " << e;
    EXPECT_EQ(e.calls[0].function, function);
    EXPECT_EQ(e.calls[0].bytes, 8192u);
    EXPECT_FALSE(e.calls[0].stack.empty());
    EXPECT_FALSE(e.none());
  }
}

TEST(Escapes, AreSeenOnOtherThreads) {
  const Escapes e = count_escapes([] { std::thread([] { use(std::malloc(50000)), std::free(sink); }).join(); });
  ASSERT_EQ(e.calls.size(), 1u) << e;
  EXPECT_EQ(e.calls[0].bytes, 50000u);
}

TEST(Escapes, AreNotSmallCallsNorFromBefore) {
  use(std::malloc(8192));
  std::free(sink);
  EXPECT_TRUE(count_escapes([] { use(std::malloc(4095)), std::free(sink); }).none());
}

TEST(Escapes, AreCountedPastWhatCanBeRecorded) {
  const Escapes e = count_escapes([] {
    for (int i = 0; i < 1000; ++i) use(std::malloc(8192)), std::free(sink);
  });
  EXPECT_EQ(e.calls.size() + e.overflow, 1000u);
}

TEST(Escapes, AreNotTheAllocatorsSegments) {
  memory::empty_cache(Device::cpu());
  const auto program = [] { const Tensor small = empty({100}), large = empty({3000000}), own = empty({30000000}); };
  const Escapes first = count_escapes(program);
  EXPECT_TRUE(first.none()) << first;
  EXPECT_EQ(first.segments, 3u);
  EXPECT_GE(first.tracked, 4u * 33000100);
}

/// The first step may build what lasts: threads, the libraries' caches. From the second on every byte is tracked.
void expect_no_escapes(const std::string& model) {
  Steps training(model, Device::cpu(), 64);
  for (int i = 0; i < 2; ++i) training.step();
  for (int i = 0; i < 3; ++i) {
    const Escapes e = count_escapes([&] { training.step(); });
    EXPECT_TRUE(e.none()) << model << ", a steady step: " << e;
    EXPECT_GT(e.tracked, 100000u) << "the step did work";
  }
}

TEST(Escapes, NoneInAnMlpTrainingStep) { expect_no_escapes("mlp"); }
TEST(Escapes, NoneInACnnTrainingStep) { expect_no_escapes("cnn"); }

}  // namespace
}  // namespace bytetape
