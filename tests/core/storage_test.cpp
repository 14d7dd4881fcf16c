#include "bytetape/core/storage.h"
#include "bytetape/core/memory/stats.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/external.h"
#include "bytetape/core/tensor.h"

namespace bytetape {
namespace {

using memory::Role;

TEST(Storage, TakesItsBytesFromTheDevicesAllocator) {
  const auto allocated = [] { return memory::stats(Device::cpu()).allocated.current; };
  const std::size_t before = allocated();
  {
    const Storage s(1000, Device::cpu(), Role::input);
    EXPECT_EQ(allocated(), before + 1024);
    EXPECT_EQ(s.bytes(), 1000u);
    EXPECT_EQ(s.role(), Role::input);
    EXPECT_NE(s.data(), nullptr);
  }
  EXPECT_EQ(allocated(), before);
}

TEST(Storage, OfNoBytesTakesNoBlock) {
  Storage s(0, Device::cpu(), Role::input);
  EXPECT_EQ(s.block(), nullptr);
  s.set_role(Role::gradient);
  s.hold_saved();
  s.drop_saved();
  EXPECT_EQ(s.role(), Role::temporary);
}

TEST(Storage, WrappedMemoryIsOnNoLedgerAndIsReleasedOnce) {
  const std::size_t before = memory::stats(Device::cpu()).allocated.current;
  int released = 0;
  double data[4];
  {
    const Storage s(data, sizeof data, Device::cpu(),
                    std::make_unique<ExternalMemory>(
                        data, sizeof data, Device::cpu(), [&] { ++released; }, false));
    EXPECT_EQ(s.data(), data);
    EXPECT_EQ(s.block(), nullptr);
    EXPECT_EQ(memory::stats(Device::cpu()).allocated.current, before);
  }
  EXPECT_EQ(released, 1);
}

TEST(Storage, IsSavedAsLongAsATensorOfItIs) {
  const Tensor x = empty({100});
  {
    const Tensor keeper = x;  // shares x's impl, as a Saved does
    keeper.storage().hold_saved();
    EXPECT_EQ(x.storage().role(), Role::saved);
    const Ref<Storage> storage = keeper.impl()->storage;
    storage->drop_saved();
  }
  EXPECT_EQ(x.storage().role(), Role::temporary);
}

TEST(Storage, IsDroppedForItsWatchOnceNobodyKeepsIt) {
  struct Watch final : detail::SavedWatch {
    int holds = 0, drops = 0;
    bool wants(const Storage& s) const override { return s.bytes() > 100; }
    void held(Storage&) override { ++holds; }
    void restored(Storage&) override {}
    void dropped(Storage&) noexcept override { ++drops; }
  };
  const auto watch = make_ref<Watch>();
  const Tensor large = empty({100}), small = empty({3});
  detail::core_ambient.saved_watch = watch.get();
  for (const Tensor& x : {large, small})
    for (int i = 0; i < 2; ++i) x.storage().hold_saved();
  detail::core_ambient.saved_watch = nullptr;
  EXPECT_EQ(watch->holds, 2);
  large.storage().drop_saved();
  EXPECT_EQ(watch->drops, 0) << "another node keeps it";
  large.storage().drop_saved();
  EXPECT_EQ(watch->drops, 1);
  for (int i = 0; i < 2; ++i) small.storage().drop_saved();
  EXPECT_EQ(watch->drops, 1) << "of what it did not want";
}

TEST(Storage, ChangesNoRoleWithTheLastDrop) {
  memory::reset_log(Device::cpu());  // other tests of this process may have filled it
  Tensor x = empty({100});
  x.storage().hold_saved();
  const Ref<Storage> last = x.impl()->storage;
  x = Tensor();
  last->drop_saved();
  EXPECT_EQ(memory::snapshot(Device::cpu()).events.back().role, Role::saved);
  EXPECT_EQ(last->role(), Role::saved);
}

TEST(Storage, BooksUnderTheModuleItIsGiven) {
  const memory::NameId module = memory::intern("net.fc1");
  const Tensor x = empty({10});
  x.storage().set_role(Role::parameter, module);
  EXPECT_EQ(x.storage().role(), Role::parameter);
  EXPECT_EQ(x.storage().module(), module);
}

/// Fills a storage with its number of calls.
class Counting final : public ByteSource {
 public:
  explicit Counting(int& calls, bool fails = false) : calls_(calls), fails_(fails) {}
  void refill(Storage& s) override {
    s.bump_version();  // as kernels do
    if (fails_) throw ValueError("no bytes");
    std::memset(s.data(), ++calls_, s.bytes());
  }

 private:
  int& calls_;
  const bool fails_;
};

TEST(DroppedStorage, GetsItsBytesFromTheSourceOnUse) {
  const auto held = [] { return memory::stats(Device::cpu()).allocated.current; };
  int calls = 0;
  const Tensor x = empty({1000}, DType::u8, Device::cpu(), Role::parameter);
  Storage& s = x.storage();
  s.set_source(make_ref<Counting>(calls));
  const std::uint32_t version = s.version();
  const std::size_t before = held();
  EXPECT_FALSE(s.is_dropped());
  for (int i = 1; i <= 3; ++i) {
    s.drop();
    s.drop();  // does nothing
    EXPECT_TRUE(s.is_dropped());
    EXPECT_EQ(s.block(), nullptr);
    EXPECT_EQ(held(), before - 1024);
    switch (i) {  // each kind of use
      case 1:
        EXPECT_EQ(x.read().as<std::uint8_t>()[999], i);
        break;
      case 2:
        EXPECT_EQ(x.write().as<std::uint8_t>()[999], i);
        break;
      default:
        EXPECT_EQ(x.data<std::uint8_t>()[999], i);
    }
    EXPECT_FALSE(s.is_dropped());
    EXPECT_EQ(calls, i);
    EXPECT_EQ(held(), before);
    EXPECT_EQ(s.role(), Role::parameter);
    EXPECT_EQ(s.version(), version);
    s.refill();  // does nothing
    EXPECT_EQ(calls, i);
  }
}

TEST(DroppedStorage, StaysDroppedIfTheSourceFails) {
  const std::size_t before = memory::stats(Device::cpu()).allocated.current;
  int calls = 0;
  const Tensor x = empty({1000}, DType::u8);
  x.storage().set_source(make_ref<Counting>(calls, true));
  const std::uint32_t version = x.storage().version();
  x.storage().drop();
  EXPECT_THROW(x.read(), ValueError);
  EXPECT_TRUE(x.storage().is_dropped());
  EXPECT_EQ(x.storage().version(), version);
  EXPECT_EQ(memory::stats(Device::cpu()).allocated.current, before);
}

TEST(DroppedStorage, KeepsItsModuleAndIsNotCountedAsSaved) {
  int calls = 0;
  const Tensor x = empty({4});
  Storage& s = x.storage();
  s.set_role(Role::temporary, memory::intern("net.fc"));
  s.set_source(make_ref<Counting>(calls));
  s.hold_saved();
  s.drop();
  EXPECT_EQ(s.module(), memory::intern("net.fc"));
  EXPECT_FALSE(s.is_saved());
  s.refill();
  EXPECT_EQ(s.module(), memory::intern("net.fc"));
  EXPECT_EQ(s.role(), Role::temporary);
  s.drop_saved();
}

TEST(DroppedStorage, IsRefusedWithoutASource) {
  const Tensor x = empty({4});
  EXPECT_THROW(x.storage().drop(), ValueError);
  EXPECT_NE(x.storage().data(), nullptr);
}

}  // namespace
}  // namespace bytetape
