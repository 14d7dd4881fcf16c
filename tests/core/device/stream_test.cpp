// Streams on a device of the host's memory that only writes down who waits for whom. What a GPU makes of it is in
// tests/cuda/runtime/stream_test.cpp.
#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/allocator.h"

#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "bytetape/bytetape.h"
#include "bytetape/core/cpu/table.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using memory::Allocator;
using memory::Block;
using memory::Role;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> waits;  // "1>0": stream 0 waits for stream 1
std::unique_ptr<Allocator> device, twin;

const Device gpu = Device::cuda();

/// Of a step that was computed while it was recorded.
struct Done final : DeviceGraph {
  void replay() override {}
};

class Streams : public testing::Test {
 protected:
  Streams() {
    register_backend(DeviceType::cuda,
                     {.kernels = &cpu::kernels(),
                      .allocator = [](int) -> Allocator& { return *device; },
                      .meta_allocator = [](int) -> Allocator& { return *twin; },
                      .record = [](int, const std::function<void()>& work) -> std::unique_ptr<DeviceGraph> {
                        work();
                        return std::make_unique<Done>();
                      },
                      .order = [](int, int from, int to) noexcept { waits.push_back(detail::concat(from, ">", to)); }});
    device = std::make_unique<Allocator>(gpu, std::make_unique<memory::HostUpstream>());
    twin = std::make_unique<Allocator>(Device::meta(gpu), std::make_unique<memory::SimulatedUpstream>());
    waits.clear();
  }
  ~Streams() override { register_backend(DeviceType::cuda, {}); }

  static std::vector<std::string> new_waits() { return std::exchange(waits, {}); }
};

TEST_F(Streams, AreScope) {
  EXPECT_EQ(current_stream(), Stream(0));
  {
    const StreamScope scope(Stream(2));
    const memory::ModuleScope module(memory::intern("net"));
    const memory::PhaseScope phase(memory::Phase::data);
    EXPECT_EQ(current_stream(), Stream(2));
    std::thread([] { EXPECT_EQ(current_stream(), Stream(0)); }).join();
  }
  EXPECT_EQ(current_stream(), Stream(0));
  EXPECT_THROW(Stream{-1}, ValueError);
  EXPECT_THROW(Stream{Stream::count}, ValueError);
  EXPECT_EQ(Stream::for_copies().number(), Stream::count);
}

TEST_F(Streams, WaitForWhatAnotherHasWritten) {
  Tensor x;
  {
    const StreamScope scope(Stream(1));
    x = ones({8}, DType::f32, gpu);
  }
  EXPECT_THAT(new_waits(), IsEmpty());
  const Tensor y = x + 1;
  EXPECT_THAT(new_waits(), ElementsAre("1>0"));
  const Tensor z = x + 2;
  EXPECT_THAT(new_waits(), IsEmpty());  // once is enough
  const StreamScope scope(Stream(1));
  const Tensor w = x + 3;
  EXPECT_THAT(new_waits(), IsEmpty());  // reading is no writing
}

TEST_F(Streams, WaitForReadersBeforeTheyWrite) {
  const Tensor x = ones({8}, DType::f32, gpu);
  Tensor kept[2];
  for (int i = 1; i <= 2; ++i) {
    const StreamScope scope{Stream(i)};
    kept[i - 1] = x + 1;
  }
  EXPECT_THAT(new_waits(), ElementsAre("0>1", "0>2"));
  fill_(x, 2);
  EXPECT_THAT(new_waits(), ElementsAre("1>0", "2>0"));
  fill_(x, 3);
  EXPECT_THAT(new_waits(), IsEmpty());
  const StreamScope scope(Stream(1));
  fill_(x, 4);
  EXPECT_THAT(new_waits(), ElementsAre("0>1"));
}

TEST_F(Streams, TakeBackWhatOthersHaveUsedAfterThem) {
  {
    Tensor x;
    {
      const StreamScope scope(Stream(3));
      x = ones({8}, DType::f32, gpu);
    }
    const Tensor y = x + 1;
    EXPECT_THAT(new_waits(), ElementsAre("3>0"));
  }
  EXPECT_THAT(new_waits(), ElementsAre("0>3"));
}

TEST_F(Streams, HaveMemoryOfTheirOwn) {
  const auto place = [](int stream) {
    const StreamScope scope{Stream(stream)};
    return empty({8}, DType::f32, gpu).storage().data();
  };
  const void *zero = place(0), *one = place(1);
  EXPECT_NE(zero, one);
  EXPECT_EQ(place(0), zero);
  EXPECT_EQ(place(1), one);
  EXPECT_EQ(device->statistics().upstream_calls, 2u);
}

TEST_F(Streams, SayNothingOnTheCpu) {
  memory::Allocator host(Device::cpu(), std::make_unique<memory::HostUpstream>());
  const auto place = [&](int stream) {
    const StreamScope scope{Stream(stream)};
    memory::Block* const block = host.allocate(32, memory::Role::temporary);
    void* const data = block->data;
    host.deallocate(block);
    return data;
  };
  EXPECT_EQ(place(0), place(1)) << "one cache";
  const Tensor x = test::random_tensor({8}, DType::f32);
  const StreamScope scope(Stream(1));
  EXPECT_EQ((-x).to_vector<float>()[7], -x.to_vector<float>()[7]) << "of another stream";
  EXPECT_EQ((ones({8}) + 1).to_vector<float>(), std::vector<float>(8, 2));
  EXPECT_THAT(new_waits(), IsEmpty());
}

TEST_F(Streams, AreTakenUpAgainByBackward) {
  Tensor w = ones({8}, DType::f32, gpu).set_requires_grad();
  Tensor y;
  int seen = -1;
  {
    const StreamScope scope(Stream(2));
    y = w * 3;
    y.register_hook([&](const Tensor&) {
      seen = current_stream().number();
      return Tensor();
    });
  }
  waits.clear();
  sum(y).backward();
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(current_stream(), Stream(0));
  EXPECT_THAT(waits, testing::Contains("0>2"));  // the gradient of the sum comes from stream 0
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(8, 3));
}

TEST_F(Streams, ArePredicted) {
  const auto program = [](Device on) {
    const Tensor x = ones({300}, DType::f32, on);
    for (int i = 0; i < 3; ++i) {
      const StreamScope scope{Stream(i)};
      const Tensor y = x * x;
    }
  };
  program(gpu);
  const std::size_t real = waits.size();
  program(Device::meta(gpu));
  EXPECT_GT(real, 0u);
  EXPECT_EQ(waits.size(), real);  // a twin has nothing to wait for
  EXPECT_EQ(device->snapshot().events, twin->snapshot().events);
}

// A captured step's memory is used again by its replays, and by each of its streams in the order of its work.
TEST_F(Streams, HaveMemoryOfTheirOwnWithinAStepThatIsRecorded) {
  std::vector<const void*> places;
  auto step = capture([&](const Tensor& x) {
    places.clear();
    for (const int stream : {0, 1, 0, 1}) {
      const StreamScope scope{Stream(stream)};
      const Tensor y = x + 1;
      places.push_back(y.storage().data());
    }
    return x * 2;
  });
  const Tensor x = ones({4}, DType::f32, gpu);
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_TRUE(step.is_captured());
  EXPECT_NE(places[0], places[1]);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[3]);
}

TEST_F(Streams, ShareTheLimitAndSayWhereTheRestIs) {
  device->set_limit(24 * std::size_t{1} << 20);
  const Tensor small = empty({1}, DType::f32, gpu);  // 2 MiB
  {
    const StreamScope scope(Stream(1));
    const Tensor held = empty({512}, DType::f32, gpu);  // 2 MiB
    const Tensor large = empty({5 << 20}, DType::u8, gpu);
    const StreamScope other(Stream(2));
    try {
      empty({6 << 20}, DType::u8, gpu);
      FAIL() << "expected OutOfMemory";
    } catch (const OutOfMemory& e) {
      EXPECT_GT(e.shortage().elsewhere, std::size_t{15} << 20);
      EXPECT_THAT(e.what(), testing::HasSubstr("belong to other streams or captured steps"));
    }
  }
  EXPECT_EQ(empty({19 << 20}, DType::u8, gpu).numel(), 19 << 20);  // the other streams' caches have gone back
}

// ---- threads

/// Who holds which addresses; no two may overlap.
class Places {
 public:
  void take(const Block* b) {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(b->data), end = begin + b->size;
    const auto after = held_.lower_bound(begin);
    ASSERT_TRUE(after == held_.end() || after->first >= end);
    ASSERT_TRUE(after == held_.begin() || std::prev(after)->second <= begin);
    held_.emplace_hint(after, begin, end);
  }
  void give_back(const Block* b) {
    const std::lock_guard lock(mutex_);
    ASSERT_EQ(held_.erase(reinterpret_cast<std::uintptr_t>(b->data)), 1u);
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> held_;
};

TEST(StreamThreads, ShareAnAllocatorWithoutOverlapOrLeak) {
  constexpr int threads = 16, streams = 4, operations = 1'000'000 / threads;
  Allocator a(Device::meta(gpu), std::make_unique<memory::SimulatedUpstream>(std::size_t{2} << 30));
  Places places;
  const auto traffic = [&](int id) {
    const StreamScope scope{Stream(id % streams)};
    std::mt19937 random(static_cast<unsigned>(id));
    std::vector<Block*> live;
    for (int i = 0; i < operations; ++i) {
      const auto dice = random() % 1000;
      if (dice < 490 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        places.give_back(live.back());
        a.deallocate(live.back());
        live.pop_back();
      } else if (dice == 999 && i % 100 == 0) {
        a.empty_cache();
      } else if (live.size() < 64) {
        live.push_back(a.allocate(1 + random() % (dice < 990 ? 10'000 : 3'000'000), Role::temporary));
        places.take(live.back());
      }
    }
    for (const Block* b : live) places.give_back(b);
    for (Block* b : live) a.deallocate(b);
  };
  std::vector<std::thread> all;
  for (int id = 0; id < threads; ++id) all.emplace_back(traffic, id);
  for (std::thread& t : all) t.join();
  EXPECT_EQ(a.statistics().allocated.current, 0u);
  a.empty_cache();
  EXPECT_EQ(a.statistics().reserved.current, 0u);
}

}  // namespace
}  // namespace bytetape
