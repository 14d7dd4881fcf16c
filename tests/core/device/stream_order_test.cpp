// Whatever streams and copies do with a storage, of two that use the same bytes, one writing, the later one waits for
// the earlier one: told by vector clocks, which know of no wait but those that were asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/memory/allocator/pool.h"

namespace bytetape {
namespace {

using memory::Role;
using Clock = std::array<unsigned, memory::stream_count>;

void catch_up(Clock& to, const Clock& with) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], with[i]);
}

/// How far each stream has come, and as far as it knows, every other one.
struct World {
  struct Use {
    int stream;
    unsigned time;
  };
  struct Uses {
    std::vector<Use> writes, reads;  // reads since the last write, which is the only one
  };
  std::array<Clock, memory::stream_count> known{};
  Clock host{};
  std::vector<Clock> marks;
  std::unordered_map<const void*, Uses> uses;
  std::string race;

  void use(const void* bytes, bool writes, const char* what) {
    const int here = current_stream().number();
    Clock& clock = known[static_cast<std::size_t>(here)];
    catch_up(clock, host);
    Uses& before = uses[bytes];
    const auto unknown = [&](const Use& u) { return clock[static_cast<std::size_t>(u.stream)] < u.time; };
    if (std::any_of(before.writes.begin(), before.writes.end(), unknown)) race = what;
    if (writes && std::any_of(before.reads.begin(), before.reads.end(), unknown)) race = what;
    const Use now{here, ++clock[static_cast<std::size_t>(here)]};
    if (writes)
      before = {{now}, {}};
    else
      before.reads.push_back(now);
  }
};
World* world = nullptr;

TEST(StreamOrders, WhatAStreamBroughtBackIsItsOwn) {
  StreamOrder order;
  order.forget_users();
  order.note_copied_back(3);
  EXPECT_TRUE(order.may_read() && order.may_write()) << "without a wait";
  const StreamScope scope(Stream(1));
  EXPECT_FALSE(order.may_read() || order.may_write());
}

class StorageOrder : public testing::Test {
 protected:
  static inline const Device gpu = Device::cuda();
  static constexpr int copies = Stream::for_copies().number();

  enum Act { read, write, restore, copy_out, drop_copy, evict };
  struct Step {
    Act act;
    int stream;
  };
  static std::vector<Step> all_steps() {
    std::vector<Step> all{{copy_out, 0}, {drop_copy, 0}, {evict, 0}};
    for (const Act act : {read, write, restore})
      for (const int stream : {0, 1, copies}) all.push_back({act, stream});
    return all;
  }

  StorageOrder() {
    self = this;
    world = &now;
    register_backend(
        DeviceType::cuda,
        {.kernels = &cpu::kernels(),
         .allocator = [](int) -> memory::Allocator& { return self->device; },
         .transfer =
             [](Place<const void*> from, Place<void*> to, std::size_t) {
               world->use(from.data, false, "the copy reads on the host");
               world->use(to.data, true, "the copy writes on the device");
             },
         .to_pinned =
             [](int, const void* from, void* to, std::size_t) {
               world->use(from, false, "the copy out reads on the device");
               world->use(to, true, "the copy out writes on the host");
             },
         .synchronize = [](int) {},
         .order =
             [](int, int from, int to) noexcept {
               catch_up(clock_of(to), clock_of(from));
               catch_up(clock_of(to), world->host);
             },
         .wait_mark = [](int, std::uint64_t mark, int to) noexcept { catch_up(clock_of(to), world->marks[mark - 1]); },
         .pinned = [](int) -> memory::PinnedMemory& { return self->pinned; },
         .mark = mark,
         .recorded_mark = mark});
  }
  ~StorageOrder() override {
    pinned.settle();
    register_backend(DeviceType::cuda, {});
  }

  /// Of a storage whose memory is stream `home`'s; ends with the storage, and what takes its memory next.
  void run(int home, const std::vector<Step>& steps) {
    auto s = storage_of(home);
    for (const Step& step : steps) {
      take(step, *s);
      if (step.act == evict) storage_of(home);
    }
    s = {};
    storage_of(home);
  }
  static std::string name_of(int home, const std::vector<Step>& steps) {
    constexpr std::array names{"read", "write", "restore", "copy_out", "drop_copy", "evict"};
    std::string all = "memory of " + std::to_string(home);
    for (const Step& step : steps) {
      all += std::string(", ") + names[step.act];
      if (step.act <= restore) all += " on " + std::to_string(step.stream);
    }
    return all;
  }
  /// Calls f in a step that is being recorded, in which the host waits for nothing.
  template <class F>
  void record(const F& f) {
    start_anew();
    const memory::Pool pool(device);
    const memory::PoolScope scope(pool);
    detail::Capture capture(gpu, pool);
    f();
    if (now.host != Clock{}) now.race = "the host waits";
  }
  void start_anew() {
    pinned.settle();
    now = {};
  }

  template <class F>
  void for_short_programs(const F& f) {
    const std::vector<Step> all = all_steps();
    constexpr std::size_t length = 3;
    for (const auto& begin : {std::vector<Step>{}, {{copy_out, 0}}, {{evict, 0}, {restore, copies}}})
      for (const int home : {0, 1, copies})
        for (std::size_t number = 0; number < all.size() * all.size() * all.size(); ++number) {
          std::vector<Step> steps = begin;
          for (std::size_t i = 0, rest = number; i < length; ++i, rest /= all.size())
            steps.push_back(all[rest % all.size()]);
          start_anew();
          f(home, steps);
          ASSERT_EQ(now.race, "") << name_of(home, steps);
        }
  }
  template <class F>
  void for_long_programs(const F& f) {
    const std::vector<Step> all = all_steps();
    std::mt19937 random(1);
    for (int i = 0; i < 4000; ++i) {
      if (i % 8 == 0) start_anew();
      std::vector<Step> steps(20);
      for (Step& step : steps) step = all[random() % all.size()];
      const int home = std::array{0, 1, copies}[random() % 3];
      f(home, steps);
      ASSERT_EQ(now.race, "") << name_of(home, steps);
    }
  }

  static memory::ScopeIds on(int stream) {
    memory::ScopeIds ids = memory::ambient.scope;
    ids.stream = static_cast<memory::StreamId>(stream);
    return ids;
  }
  static Ref<Storage> storage_of(int home) {
    const memory::ScopeGuard here(on(home));
    auto s = make_ref<Storage>(1024, gpu, Role::temporary);
    s->before_write();
    world->use(s->data(), true, "who takes the memory writes");
    return s;
  }
  static void take(const Step& step, Storage& s) {
    const memory::ScopeGuard here(on(step.stream));
    switch (step.act) {
      case read:
        s.before_read();
        return world->use(s.data(), false, "a read");
      case write:
        s.before_write();
        return world->use(s.data(), true, "a write");
      case restore:
        return s.restore();
      case copy_out:
        return s.copy_out();
      case drop_copy:
        return s.drop_copy();
      case evict:
        return s.evict();
    }
  }

  World now;

 private:
  static std::uint64_t mark(int) {
    world->marks.push_back(clock_of(current_stream().number()));
    return std::uint64_t{world->marks.size()};
  }
  static Clock& clock_of(int stream) { return world->known[static_cast<std::size_t>(stream)]; }
  static inline StorageOrder* self = nullptr;
  memory::Allocator device{gpu, std::make_unique<memory::HostUpstream>()};
  memory::PinnedMemory pinned{gpu, std::make_unique<memory::HostUpstream>(), [](int, std::uint64_t mark) noexcept {
                                for (std::size_t i = 0; i < mark; ++i) catch_up(world->host, world->marks[i]);
                              }};
};

TEST_F(StorageOrder, HoldsForEveryShortProgram) {
  for_short_programs([this](int home, const std::vector<Step>& steps) { run(home, steps); });
}

TEST_F(StorageOrder, HoldsForEveryShortProgramThatIsRecorded) {
  for_short_programs([this](int home, const std::vector<Step>& steps) { record([&] { run(home, steps); }); });
}

TEST_F(StorageOrder, HoldsForLongProgramsOneAfterAnother) {
  for_long_programs([this](int home, const std::vector<Step>& steps) { run(home, steps); });
}

TEST_F(StorageOrder, HoldsForLongProgramsThatAreRecorded) {
  for_long_programs([this](int home, const std::vector<Step>& steps) {
    record([&] {
      for (int i = 0; i < 2; ++i) run(home, steps);  // also in host memory that was used before
    });
  });
}

// The host memory of the one that came back is the next one's, and only a wait within the recording makes it so.
TEST_F(StorageOrder, HoldsForHostMemoryThatGoesFromOneToAnother) {
  for (const int stream : {0, 1, copies})
    record([&] {
      const auto one = storage_of(0), other = storage_of(0);
      take({evict, 0}, *one);
      take({restore, stream}, *one);
      take({copy_out, 0}, *other);
      EXPECT_EQ(now.race, "") << stream;
    });
}

}  // namespace
}  // namespace bytetape
