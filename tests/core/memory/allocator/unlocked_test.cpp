// An upstream that takes its time keeps nobody waiting who does not need it.
#include "bytetape/core/memory/allocator/unlocked.h"
#include "bytetape/core/memory/ledger/scope.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// Simulated memory, of which a call waits where `gate` is closed, and says when it came there.
class SlowUpstream final : public Upstream {
 public:
  struct Gate {
    std::promise<void> reached, opened;
    void pass() {
      reached.set_value();
      EXPECT_EQ(opened.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready)
          << "what should have gone on meanwhile waited for this call";
    }
  };
  explicit SlowUpstream(std::shared_ptr<Gate>& gate) : gate_(gate) {}
  void* allocate(std::size_t bytes) noexcept override {
    pass();
    return memory_.allocate(bytes);
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    pass();
    memory_.deallocate(data, bytes);
  }
  std::size_t capacity() const override { return memory_.capacity(); }

 private:
  void pass() {
    if (const auto gate = std::move(gate_)) gate->pass();
  }
  SimulatedUpstream memory_;
  std::shared_ptr<Gate>& gate_;
};

class SlowMemory : public testing::TestWithParam<Allocator::Mode> {
 protected:
  ~SlowMemory() override { EXPECT_EQ(allocator.statistics().allocated.current, 0u); }
  Block* take(std::size_t bytes) { return allocator.allocate(bytes, Role::temporary); }
  /// Runs `call` on a thread of its own and, while that is in the upstream, `meanwhile`.
  template <class F, class G>
  void during(F call, G meanwhile) {
    const auto closed = gate = std::make_shared<SlowUpstream::Gate>();
    auto done = std::async(std::launch::async, call);
    closed->reached.get_future().wait();
    meanwhile();
    closed->opened.set_value();
    done.get();
  }

  std::shared_ptr<SlowUpstream::Gate> gate;
  Allocator allocator{Device::meta(Device::cuda()), std::make_unique<SlowUpstream>(gate), GetParam()};
};
using SlowCache = SlowMemory;

TEST_P(SlowMemory, GivesNothingWhileOthersFreeAndReadTheBooks) {
  Block *const one = take(KiB), *two = nullptr;
  during([&] { two = take(30 * MiB); },
         [&] {
           allocator.retag(one, Role::input);
           EXPECT_EQ(allocator.statistics().allocated.current, one->size);
           if (GetParam() == Allocator::Mode::caching) allocator.deallocate(one);
         });
  if (GetParam() == Allocator::Mode::direct) allocator.deallocate(one);
  during([&] { GetParam() == Allocator::Mode::direct ? allocator.deallocate(two) : allocator.empty_cache(); },
         [&] { allocator.begin_step(); });
  if (GetParam() == Allocator::Mode::caching) allocator.deallocate(two);
}

TEST_P(SlowCache, ServesFromTheCacheMeanwhile) {
  allocator.deallocate(take(KiB));
  Block* large = nullptr;
  during([&] { large = take(30 * MiB); }, [&] { allocator.deallocate(take(KiB)); });
  allocator.deallocate(large);
  Block* const kept = take(KiB);
  during([&] { allocator.empty_cache(); }, [&] { allocator.deallocate(take(KiB)); });  // of the piece behind `kept`
  allocator.deallocate(kept);
  EXPECT_EQ(allocator.statistics().reserved.current, 2 * MiB);
}

TEST_P(SlowCache, SharesTheSegmentThatAnotherThreadIsTaking) {
  allocator.set_limit(2 * MiB);
  Block* one = nullptr;
  std::future<Block*> two;
  during([&] { one = take(KiB); }, [&] { two = std::async(std::launch::async, [&] { return take(KiB); }); });
  Block* const other = two.get();
  EXPECT_EQ(other->segment, one->segment);
  EXPECT_EQ(allocator.statistics().upstream_calls, 1u);
  for (Block* b : {one, other}) allocator.deallocate(b);
}

TEST_P(SlowCache, IsNobodysWhileTheModeChanges) {
  const auto take_on_another_stream = [&] {
    const ScopeGuard scope(ScopeIds{.stream = 1});
    return take(KiB);
  };
  Block* const one = take(KiB);
  allocator.deallocate(take_on_another_stream());
  allocator.deallocate(one);
  std::future<Block*> other;
  during([&] { allocator.set_mode(Allocator::Mode::direct); },
         [&] {
           other = std::async(std::launch::async, take_on_another_stream);
           EXPECT_EQ(other.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
         });
  Block* const b = other.get();
  EXPECT_EQ(allocator.statistics().reserved.current, b->size);
  allocator.deallocate(b);
}

INSTANTIATE_TEST_SUITE_P(Modes, SlowMemory, testing::Values(Allocator::Mode::caching, Allocator::Mode::direct));
INSTANTIATE_TEST_SUITE_P(Caching, SlowCache, testing::Values(Allocator::Mode::caching));

}  // namespace
}  // namespace bytetape::memory
