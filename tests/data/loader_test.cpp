#include "bytetape/data/loader.h"
#include "bytetape/core/memory/stats.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "tests/data/files.h"
#include "tests/support/events.h"
#include "tests/support/stand_in.h"

namespace bytetape::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
static_assert(std::input_iterator<DataLoader::Iterator>);
static_assert(!std::is_constructible_v<DataLoader, const TensorDataset>, "a temporary dataset would dangle");

/// Example i is x = (i, i + 0.5), y = i. Loading may take its time, or fail.
class Counted : public Dataset {
 public:
  explicit Counted(std::int64_t n) : n_(n) {}
  std::int64_t size() const override { return n_; }
  ExampleSpec example() const override { return {{2}, DType::f32, {}, DType::i64}; }

  std::int64_t fails_at = -1;  // an example
  bool uneven = false;         // early batches take longer than later ones
  mutable std::atomic<int> loaded{0};

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const override {
    ++loaded;
    if (uneven) std::this_thread::sleep_for(std::chrono::milliseconds(indices[0] % 3));
    auto* number = y.data<std::int64_t>();
    auto* pair = x.data<float>();
    for (std::int64_t i : indices) {
      if (i == fails_at) throw std::out_of_range("example " + std::to_string(i) + " is unreadable");
      *number++ = i;
      *pair++ = static_cast<float>(i);
      *pair++ = static_cast<float>(i) + 0.5f;
    }
  }

 private:
  std::int64_t n_;
};

std::vector<std::vector<std::int64_t>> epoch(DataLoader& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  for (const auto& [x, y] : loader) {
    batches.push_back(y.to_vector<std::int64_t>());
    const auto values = x.to_vector<float>();
    for (std::size_t i = 0; i < batches.back().size(); ++i)
      EXPECT_EQ(values[2 * i + 1], static_cast<float>(batches.back()[i]) + 0.5f);
  }
  return batches;
}
std::vector<std::int64_t> flat(const std::vector<std::vector<std::int64_t>>& batches) {
  std::vector<std::int64_t> all;
  for (const auto& b : batches) all.insert(all.end(), b.begin(), b.end());
  return all;
}

class Workers : public testing::TestWithParam<int> {
 protected:
  DataLoaderOptions options() const {
    DataLoaderOptions o;
    o.batch_size = 4;
    o.workers = GetParam();
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(Loader, Workers, testing::Values(0, 1, 2, 5));

TEST_P(Workers, GiveEveryBatchInOrder) {
  Counted set(10);
  set.uneven = true;
  DataLoader loader(set, options());
  EXPECT_EQ(loader.size(), 3);
  for (int e = 0; e < 2; ++e)
    EXPECT_THAT(epoch(loader), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9)));
}

TEST_P(Workers, OptionsMakeAnotherLoader) {
  auto o = options();
  o.shuffle = true;
  const Counted set(10), more(20);
  DataLoader loader(set, o), same(set, loader.options()), larger(more, loader.options());
  EXPECT_EQ(epoch(loader), epoch(same));
  EXPECT_EQ(larger.size(), 5);
}

TEST_P(Workers, MayDropTheLastBatch) {
  auto o = options();
  o.drop_last = true;
  const Counted set(10);
  DataLoader loader(set, o);
  EXPECT_EQ(loader.size(), 2);
  EXPECT_EQ(flat(epoch(loader)).size(), 8u);
  const std::uint64_t before = memory::stats(Device::cpu()).allocations;
  for (const Batch& batch : loader) EXPECT_EQ(batch.x.size(0), 4);
  EXPECT_EQ(memory::stats(Device::cpu()).allocations - before, 4u) << "x and y of two batches";
  const Counted few(3);
  DataLoader none(few, o);
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(epoch(none).empty());
}

TEST_P(Workers, ShuffleTheSameWay) {
  auto o = options();
  o.shuffle = true;
  o.seed = 42;
  const Counted set(103);
  DataLoader loader(set, o), again(set, o);
  const auto first = flat(epoch(loader)), second = flat(epoch(loader));
  EXPECT_EQ(first, flat(epoch(again)));
  EXPECT_EQ(second, flat(epoch(again)));
  EXPECT_NE(first, second) << "each epoch has an order of its own";
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(first, sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], static_cast<std::int64_t>(i));
  o.workers = 0;
  DataLoader here(set, o);
  EXPECT_EQ(first, flat(epoch(here)));
  o.seed = 43;
  DataLoader other(set, o);
  EXPECT_NE(first, flat(epoch(other)));
}

TEST_P(Workers, RethrowWhereTheBatchWouldBe) {
  Counted set(20);
  set.fails_at = 9;  // in the third batch
  DataLoader loader(set, options());
  std::vector<std::int64_t> seen;
  const std::string message = error_of<std::out_of_range>([&] {
    for (const auto& batch : loader) seen.push_back(batch.y.to_vector<std::int64_t>()[0]);
  });
  EXPECT_EQ(message, "example 9 is unreadable");
  EXPECT_THAT(seen, ElementsAre(0, 4));
  set.fails_at = -1;
  EXPECT_EQ(flat(epoch(loader)).size(), 20u) << "the loader goes on after an exception";
}

TEST_P(Workers, GoOnBehindAFailedBatch) {
  Counted set(12);
  set.fails_at = 5;
  DataLoader loader(set, options());
  auto it = loader.begin();
  EXPECT_THROW(++it, std::out_of_range);
  ++it;
  ASSERT_FALSE(it == loader.end());
  EXPECT_THAT(it->y.to_vector<std::int64_t>(), ElementsAre(8, 9, 10, 11));
  ++it;
  EXPECT_TRUE(it == loader.end());
}

TEST_P(Workers, ErrorsNameTheOp) {
  struct Wrong : Counted {
    using Counted::Counted;
    void fill(std::span<const std::int64_t>, Tensor&, Tensor&) const override { fail<ValueError>("no such picture"); }
  };
  const Wrong set(4);
  DataLoader loader(set, options());
  EXPECT_EQ(error_of<ValueError>([&] { loader.begin(); }), "collate: no such picture");
}

TEST_P(Workers, LeavingEarlyNeitherHangsNorLeaks) {
  const auto held = [] { return memory::stats(Device::cpu()).allocated.current; };
  const std::size_t before = held();
  const Counted set(1000);
  DataLoader loader(set, options());
  for (int i = 0; i < 50; ++i)
    for (const auto& batch : loader)
      if (batch.y.to_vector<std::int64_t>()[0] >= i) break;
  EXPECT_EQ(held(), before);
}

TEST_P(Workers, TwoEpochsAtOnce) {
  const Counted set(8);
  DataLoader loader(set, options());
  auto a = loader.begin(), b = loader.begin();
  ++a;
  EXPECT_EQ(a->y.to_vector<std::int64_t>()[0], 4);
  EXPECT_EQ(b->y.to_vector<std::int64_t>()[0], 0);
}

TEST_P(Workers, BatchesOutliveTheLoop) {
  const Counted set(10);
  DataLoader loader(set, options());
  std::vector<Batch> kept;
  for (const Batch& b : loader) kept.push_back(b);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_THAT(kept[0].y.to_vector<std::int64_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(kept[2].x.storage().role(), memory::Role::input);
}

TEST_P(Workers, OutOfMemoryReachesTheCaller) {
  const Counted set(1 << 20);
  auto o = options();
  o.batch_size = 1 << 20;
  DataLoader loader(set, o);
  memory::empty_cache(Device::cpu());
  memory::set_limit(memory::stats(Device::cpu()).reserved.current + (std::size_t{4} << 20), Device::cpu());
  EXPECT_THAT(error_of<OutOfMemory>([&] { loader.begin(); }), HasSubstr("collate"));
  memory::set_limit(memory::snapshot(Device::cpu()).capacity, Device::cpu());
  EXPECT_FALSE(loader.begin() == loader.end());
}

TEST_P(Workers, DoWithRoomForOneBatch) {
  const TensorDataset large(zeros({6, 12 << 20}, DType::u8), arange(6));  // 24 MiB a batch: no gap of others has that
  DataLoaderOptions o = options();
  o.batch_size = 2;
  DataLoader loader(large, o);
  memory::empty_cache(Device::cpu());
  memory::set_limit(memory::stats(Device::cpu()).reserved.current + (std::size_t{25} << 20), Device::cpu());
  std::vector<std::int64_t> seen;
  EXPECT_NO_THROW({
    for (const Batch& b : loader)
      for (const std::int64_t i : b.y.to_vector<std::int64_t>()) seen.push_back(i);
  });
  memory::set_limit(memory::snapshot(Device::cpu()).capacity, Device::cpu());
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5));
}

std::vector<memory::Event> events_of_an_epoch(const DataLoaderOptions& options) {
  Counted set(60);
  set.uneven = true;
  DataLoader loader(set, options);
  memory::empty_cache(Device::cpu());
  memory::reset_log(Device::cpu());
  for (const auto& batch : loader) empty({batch.x.size(0), 3});
  auto events = memory::snapshot(Device::cpu()).events;
  for (memory::Event& e : events) e.segment = 0;  // a fresh segment's number depends on the tests before
  return events;
}

TEST_P(Workers, AnEpochIsEnteredWhereARunWasInterrupted) {
  const Counted dataset(30);
  DataLoaderOptions o = options();
  o.shuffle = true;
  DataLoader whole(dataset, o);
  const auto first = epoch(whole), second = epoch(whole), third = epoch(whole);
  for (std::int64_t done = 0; done <= whole.size(); ++done) {
    DataLoader resumed(dataset, o);
    resumed.set_position(1, done);
    EXPECT_EQ(epoch(resumed), std::vector(second.begin() + done, second.end()));
    EXPECT_EQ(epoch(resumed), third);
    resumed.set_position(0);
    EXPECT_EQ(epoch(resumed), first);
  }
  EXPECT_THROW(whole.set_position(0, whole.size() + 1), ValueError);
  EXPECT_THROW(whole.set_position(0, -1), ValueError);
  EXPECT_THROW(whole.set_position(-1), ValueError);
}

TEST(Loader, RefusesADatasetOfNegativeSize) {
  const Counted set(-1);
  EXPECT_EQ(error_of<ValueError>([&] { DataLoader(set, {}); }),
            "DataLoader: expected a dataset with size() >= 0, got -1");
}

TEST(Loader, TheLedgerDoesNotDependOnTheWorkers) {
  const auto one = events_of_an_epoch({.batch_size = 4, .workers = 1});
  EXPECT_GE(one.size(), 15u * 6);
  for (const int workers : {1, 4})
    EXPECT_TRUE(one == events_of_an_epoch({.batch_size = 4, .workers = workers})) << workers << " workers";
}

TEST_P(Workers, OnMetaAskForTheSameMemoryAndLoadNothing) {
  Counted set(30);
  const auto program = [&](Device device) {
    auto o = options();
    o.device = device;
    DataLoader loader(set, o);
    for (const Batch& batch : loader) {
      EXPECT_EQ(batch.x.device(), device);
      EXPECT_EQ(batch.y.storage().role(), memory::Role::input);
      empty(batch.x.shape(), DType::f32, device);
    }
  };
  const auto on_cpu = test::record_events(Device::cpu(), program);
  const int loaded = set.loaded;
  const auto on_meta = test::record_events(Device::meta(), program);
  EXPECT_GE(on_cpu.size(), 8u * 6);
  EXPECT_EQ(test::first_difference(on_cpu, on_meta), "");
  EXPECT_EQ(set.loaded, loaded);
}

TEST(Loader, IsOnTheDefaultDevice) {
  const Counted set(4);
  const DefaultDevice meta(Device::meta());
  DataLoader loader(set);
  EXPECT_EQ(loader.begin()->x.device(), Device::meta());
  EXPECT_EQ(set.get(std::vector<std::int64_t>{1}).x.device(), Device::cpu());
}

TEST(Loader, LoadsAheadButNoFurtherThanAsked) {
  const Counted set(100);
  DataLoader loader(set, {.batch_size = 1, .workers = 2, .prefetch = 3});
  const auto it = loader.begin();
  for (int i = 0; i < 2000 && set.loaded < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(set.loaded, 4) << "the batch handed out and three ahead";
}

TEST(Loader, ShuffleIsUniform) {
  const Counted set(4);
  DataLoader loader(set, {.batch_size = 4, .shuffle = true, .workers = 0, .seed = 7});
  std::array<std::array<int, 4>, 4> count{};  // [place][example]
  constexpr int epochs = 4000;
  for (int e = 0; e < epochs; ++e) {
    const auto order = flat(epoch(loader));
    for (std::size_t i = 0; i < 4; ++i) ++count[i][static_cast<std::size_t>(order[i])];
  }
  for (const auto& place : count)
    for (int c : place) EXPECT_NEAR(c, epochs / 4, 140);  // five standard deviations
}

TEST(Loader, HandsItsBatchesToADevice) {
  const test::StandIn stand_in;
  const Counted set(10);
  std::vector<float> seen;
  for (const Batch& b : DataLoader(set, {.batch_size = 4, .device = Device::cuda()})) {
    EXPECT_EQ(b.x.device(), Device::cuda());
    EXPECT_EQ(b.x.storage().role(), memory::Role::input);
    for (const float v : b.x.to_vector<float>()) seen.push_back(v);
  }
  ASSERT_EQ(seen.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(seen[i], static_cast<float>(i) / 2);
}

TEST_P(Workers, TakeTheExamplesOfASampler) {
  const Counted set(20);
  auto o = options();
  o.sampler = std::make_shared<SubsetRandomSampler>(std::vector<std::int64_t>{1, 3, 5, 7, 9, 11}, 2);
  DataLoader loader(set, o);
  EXPECT_EQ(loader.size(), 2);
  for (const std::uint64_t e : {0, 1}) EXPECT_EQ(flat(epoch(loader)), o.sampler->order(e));
  o.sampler = std::make_shared<SequentialSampler>(21);
  DataLoader beyond(set, o);
  EXPECT_EQ(error_of<ShapeError>([&] { epoch(beyond); }), "collate: example 20 of a dataset of 20");
}

/// Says which threads have loaded.
class Threads final : public Dataset {
 public:
  std::int64_t size() const override { return 400; }
  ExampleSpec example() const override { return {{}, DType::f32, {}, DType::i64}; }
  mutable std::mutex mutex;
  mutable std::set<std::thread::id> seen;

 protected:
  void fill(std::span<const std::int64_t>, Tensor&, Tensor&) const override {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  }
};

TEST(Loader, LoadsInNoMoreThreadsThanAsked) {
  for (const int workers : {0, 1, 2}) {
    const Threads set;
    DataLoader loader(set, {.batch_size = 1, .workers = workers, .prefetch = 9});
    for (const auto& b : loader) static_cast<void>(b);
    EXPECT_LE(set.seen.size(), static_cast<std::size_t>(std::max(workers, 1)));
    EXPECT_EQ(set.seen.contains(std::this_thread::get_id()), workers == 0);
  }
}

// A meta device without pinned memory: what would be staged on the host is on no books of the host.
TEST(Loader, OnMetaTakesNothingOfTheHost) {
  const test::StandIn stand_in;
  const Counted set(8);
  const auto before = memory::stats(Device::cpu()).allocations;
  DataLoader loader(set, {.batch_size = 4, .device = Device::meta(Device::cuda())});
  for (const auto& b : loader) EXPECT_EQ(b.x.device(), Device::meta(Device::cuda()));
  EXPECT_EQ(memory::stats(Device::cpu()).allocations, before);
  EXPECT_EQ(set.loaded, 0);
}

TEST(Loader, OptionsAreChecked) {
  const Counted set(4), nothing(0);
  int batches = 0;
  for (const int workers : {0, 1})
    for (const Counted* s : {&set, &nothing}) {
      DataLoader loader(*s, {.batch_size = 1, .workers = workers, .prefetch = 1});
      for (const auto& b : loader) batches += static_cast<int>(b.x.size(0));
    }
  EXPECT_EQ(batches, 2 * 4);
  const auto message = [&](const DataLoaderOptions& o) { return error_of<ValueError>([&] { DataLoader(set, o); }); };
  EXPECT_EQ(message({.batch_size = 0}), "DataLoader: expected batch_size >= 1, got 0");
  EXPECT_EQ(message({.workers = -1}), "DataLoader: expected workers >= 0, got -1");
  EXPECT_EQ(message({.prefetch = 0}), "DataLoader: expected prefetch >= 1, got 0");
  EXPECT_EQ(message({.shuffle = true, .sampler = std::make_shared<SequentialSampler>(4)}),
            "DataLoader: expected a sampler or shuffle, got both: the sampler sets the order");
}

}  // namespace
}  // namespace bytetape::data
