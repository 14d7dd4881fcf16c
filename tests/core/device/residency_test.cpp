// Storage that goes to pinned memory and comes back, on a device of the host's memory. On a GPU:
// tests/cuda/save_on_cpu_test.cpp.
#include <algorithm>
#include <memory>
#include <span>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using memory::Role;
using test::allocated;
using test::held_as;
using testing::ElementsAre;

class Elsewhere : public testing::Test {
 protected:
  ~Elsewhere() override {
    EXPECT_EQ(allocated(gpu), 0u);
    EXPECT_EQ(allocated(meta_gpu), 0u);
    synchronize(gpu);
    EXPECT_EQ(pinned(), 0u);
  }
  std::size_t pinned() { return fake->pinned.allocator().statistics().allocated.current; }
  std::size_t pinned_as(Role role) {
    return fake->pinned.allocator().statistics().by_role[static_cast<std::size_t>(role)].current;
  }
  /// Values on the device, by way of pinned memory that is let go.
  Tensor random() const {
    Tensor x = to(values, gpu);
    synchronize(gpu);
    return x;
  }
  static void restore_ahead(const Tensor& x) {
    const StreamScope ahead(Stream::for_copies());
    x.storage().restore();
  }
  std::size_t copies() { return fake->pinned.allocator().statistics().allocations - 1; }

  const std::unique_ptr<test::FakeGpu> fake = std::make_unique<test::FakeGpu>();
  const Device gpu = test::FakeGpu::gpu, meta_gpu = test::FakeGpu::meta_gpu;
  const Tensor values = test::random_tensor({300}, DType::f32);
};

TEST_F(Elsewhere, BytesComeBackAsTheyWere) {
  const Tensor x = random();
  x.storage().evict();
  EXPECT_TRUE(x.storage().is_evicted());
  EXPECT_EQ(allocated(gpu), 0u);
  EXPECT_EQ(pinned(), 1536u);
  EXPECT_EQ(x.device(), gpu);
  x.storage().evict();
  x.storage().restore();
  EXPECT_FALSE(x.storage().is_evicted());
  EXPECT_EQ(allocated(gpu), 1536u);
  x.storage().restore();
  EXPECT_EQ(x.to_vector<float>(), values.to_vector<float>());
}

TEST_F(Elsewhere, ComeBackForWhoeverUsesThem) {
  const Tensor x = random(), part = narrow(x, 0, 100, 50);
  x.storage().evict();
  EXPECT_EQ((part * 2).to_vector<float>(), (narrow(values, 0, 100, 50) * 2).to_vector<float>());
  EXPECT_FALSE(x.storage().is_evicted());
  x.storage().evict();
  fill_(part, 7);
  EXPECT_EQ(x.storage().version(), 1u);
  EXPECT_EQ(narrow(x, 0, 0, 100).to_vector<float>(), narrow(values, 0, 0, 100).to_vector<float>());
  EXPECT_EQ(part.to_vector<float>(), std::vector<float>(50, 7));
  x.storage().evict();
  EXPECT_EQ(x.to_vector<float>()[120], 7);
}

TEST_F(Elsewhere, ACopyIsTakenOnceAndVoidOnceTheBytesChange) {
  const Tensor x = random();
  x.storage().copy_out();
  x.storage().copy_out();
  EXPECT_EQ(copies(), 1u);
  EXPECT_EQ(pinned(), 1536u);
  fill_(x, 3);
  x.storage().evict();
  EXPECT_EQ(copies(), 2u);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(300, 3));
  x.storage().copy_out();
  const std::size_t before = pinned();
  x.storage().drop_copy();
  synchronize(gpu);
  EXPECT_LT(pinned(), before);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(300, 3));
}

TEST_F(Elsewhere, ACopyIsVoidOnceItsOwnStreamWrites) {
  const StreamScope copies(Stream::for_copies());
  const Tensor x = zeros({300}, DType::f32, gpu);
  x.storage().copy_out();
  fill_(x, 3);
  x.storage().evict();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(300, 3));
}

TEST_F(Elsewhere, ACopyTakesTheRoleThatThereIsInTheEnd) {
  const Tensor x = random();
  x.storage().copy_out();
  x.storage().set_role(Role::gradient, memory::intern("net.fc"));
  x.storage().evict();
  EXPECT_EQ(x.storage().role(), Role::gradient);
  EXPECT_EQ(memory::name_of(x.storage().module()), "net.fc");
}

TEST_F(Elsewhere, StreamsWaitForWhatTheyMust) {
  const Tensor x = random();
  const auto wait_for_last = [&] { return detail::concat("#", fake->marks, ">0"); };
  fake->done.clear();
  x.storage().copy_out();
  EXPECT_THAT(fake->done, ElementsAre("0>15", "copy out on 15"));
  fake->done.clear();
  x.storage().evict();  // whoever takes the memory on stream 0 comes behind the copy
  EXPECT_THAT(fake->done, ElementsAre(wait_for_last()));
  fake->done.clear();
  restore_ahead(x);
  EXPECT_THAT(fake->done, ElementsAre("0>15", "copy on 15"));
  fake->done.clear();
  x + x;
  EXPECT_THAT(fake->done, ElementsAre(wait_for_last()));
  x.storage().evict();
  fake->done.clear();
  x + x;  // on the stream that is behind the copy out already
  EXPECT_THAT(fake->done, ElementsAre("copy on 0"));
  x.storage().evict();
  restore_ahead(x);
  {
    const StreamScope copies(Stream::for_copies());
    x + x;
    fill_(x, 1);  // behind what came back: a wait for that would be too early
  }
  fake->done.clear();
  x + x;
  EXPECT_THAT(fake->done, ElementsAre("15>0"));
}

// Pinned memory that the device reads is nobody else's until it has come past the copy.
TEST_F(Elsewhere, WhatCameBackIsReadUntilItsMark) {
  const Tensor x = random();
  x.storage().evict();
  restore_ahead(x);
  fake->pinned.settle();
  EXPECT_EQ(fake->waited, fake->marks);
}

TEST_F(Elsewhere, WhatIsCopiedToIsNobodyElsesUntilItsMark) {
  const Tensor x = random();
  x.storage().copy_out();
  x.storage().drop_copy();
  const auto next = make_ref<Storage>(x.storage().bytes(), fake->pinned, Role::workspace);
  const auto bytes = std::span(static_cast<char*>(next->data()), next->bytes());
  std::fill(bytes.begin(), bytes.end(), char{7});
  synchronize(gpu);  // the copy comes now
  EXPECT_THAT(bytes, testing::Each(7));
}

// Neither for one that has begun since: it would not run beside what waits.
TEST_F(Elsewhere, NobodyWaitsForACopyButItsOwn) {
  const Tensor x = random(), y = random();
  const auto are_late = [&] {
    return std::count_if(fake->late.begin(), fake->late.end(), [](const auto& l) { return l.copy != nullptr; });
  };
  x.storage().copy_out();
  y.storage().copy_out();
  EXPECT_EQ(are_late(), 2);
  x.storage().evict();
  EXPECT_EQ(are_late(), 1);
  y.storage().evict();
  EXPECT_EQ(are_late(), 0);
  restore_ahead(x);
  restore_ahead(y);
  EXPECT_EQ((x + 1).to_vector<float>(), (values + 1).to_vector<float>());
  EXPECT_EQ(are_late(), 1);
  x.storage().copy_out();
  x.storage().drop_copy();
  fill_(x, 2);  // behind the copy that nobody needs
  EXPECT_EQ(are_late(), 0);
  EXPECT_EQ(y.to_vector<float>(), values.to_vector<float>());
}

TEST_F(Elsewhere, AReaderWaitsForTheWriterAndNotForACopy) {
  const Tensor x = random();
  fill_(x, 2);
  x.storage().copy_out();
  fake->done.clear();
  const StreamScope other(Stream(1));
  x + 1;
  EXPECT_THAT(fake->done, ElementsAre("0>1"));
}

// Copies are late here, and everything else at once: what does not wait would find, or leave, the wrong bytes.
TEST_F(Elsewhere, WhatIsFreedOrWrittenIsBehindItsCopies) {
  const auto expected = values.to_vector<float>();
  const auto write_over = [&] { return full({300}, -1, DType::f32, gpu); };  // takes the memory that was freed last
  const Tensor x = random();
  x.storage().copy_out();
  x.storage().evict();
  write_over();
  EXPECT_EQ(x.to_vector<float>(), expected);

  x.storage().evict();
  restore_ahead(x);
  x.storage().copy_out();
  x.storage().drop_copy();
  fill_(x, 5);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(300, 5));

  Tensor y = random();
  y.storage().evict();
  restore_ahead(y);
  y = {};  // unused: its bytes are still on their way
  const Tensor z = write_over();
  synchronize(gpu);
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(300, -1));

  const Tensor w = random();
  w.storage().evict();
  restore_ahead(w);
  {
    const StreamScope copies(Stream::for_copies());
    fill_(w, 9);
    w.storage().copy_out();
    fill_(w, 8);
  }
  w.storage().evict();
  EXPECT_EQ(w.to_vector<float>(), std::vector<float>(300, 8));
}

TEST_F(Elsewhere, RolesAndWhoHoldsThemStay) {
  const memory::ScopeGuard scope({memory::intern("net.fc"), memory::intern("linear"), memory::Phase::forward});
  const Tensor x = random();
  const Ref<Storage> alive = x.impl()->storage;
  x.storage().hold_saved(this);
  const auto is_saved = [&](std::size_t here, std::size_t there) {
    EXPECT_EQ(x.storage().role(), Role::saved);
    EXPECT_EQ(memory::name_of(x.storage().module()), "net.fc");
    EXPECT_EQ(held_as(Role::saved, gpu), here);
    EXPECT_EQ(pinned_as(Role::saved), there);
  };
  is_saved(1536, 0);
  {
    const memory::ModuleScope elsewhere(memory::intern("other"));
    x.storage().evict();
    is_saved(0, 1536);
    const int second = 0;
    x.storage().hold_saved(&second);
    x.storage().hold_saved(this);
    x.storage().drop_saved(&second);
    x.storage().restore();
    synchronize(gpu);
    is_saved(1536, 0);
    EXPECT_EQ(fake->device.blocks().at(0).saver, this);
  }
  x.storage().evict();
  x.storage().drop_saved(this);
  EXPECT_EQ(x.storage().role(), Role::saved);
  x.storage().drop_saved(this);
  EXPECT_EQ(x.storage().role(), Role::temporary);
  EXPECT_EQ(pinned_as(Role::temporary), 1536u);
  x.storage().set_role(Role::optimizer_state, memory::intern("sgd"));
  x.storage().restore();
  EXPECT_EQ(held_as(Role::optimizer_state, gpu), 1536u);
  EXPECT_EQ(memory::name_of(x.storage().module()), "sgd");
}

TEST_F(Elsewhere, EndsThereToo) {
  Tensor x = random();
  x.storage().evict();
  x = {};
  synchronize(gpu);
  EXPECT_EQ(pinned(), 0u);
}

TEST_F(Elsewhere, IsWhereTheyStayIfThereIsNoMemoryToComeBackTo) {
  const Tensor x = random();
  x.storage().evict();
  fake->device.empty_cache();
  fake->device.set_limit(0);
  EXPECT_THROW(x + x, OutOfMemory);
  EXPECT_TRUE(x.storage().is_evicted());
  fake->device.set_limit(fake->device.capacity());
  EXPECT_EQ(x.to_vector<float>(), values.to_vector<float>());
  synchronize(gpu);
  fake->pinned.allocator().empty_cache();
  fake->pinned.allocator().set_limit(0);
  EXPECT_THROW(x.storage().evict(), OutOfMemory);
  EXPECT_EQ(x.to_vector<float>(), values.to_vector<float>());
}

TEST_F(Elsewhere, IsWhereTheyStayIfTheirCopyFails) {
  const Tensor x = random();
  x.storage().evict();
  const Backend whole = backend(gpu);
  Backend broken = whole;
  broken.transfer = [](Place<const void*>, Place<void*>, std::size_t) { throw DeviceError("no transfer"); };
  register_backend(DeviceType::cuda, broken);
  fake->done.clear();
  EXPECT_THROW(restore_ahead(x), DeviceError);
  EXPECT_THAT(fake->done, ElementsAre("0>15", "15>0")) << "the memory is stream 0's again";
  fake->done.clear();
  EXPECT_THROW(x.storage().restore(), DeviceError);
  EXPECT_THAT(fake->done, ElementsAre());
  EXPECT_EQ(allocated(gpu), 0u);
  register_backend(DeviceType::cuda, whole);
  EXPECT_EQ(x.to_vector<float>(), values.to_vector<float>());
}

TEST_F(Elsewhere, IsOneOfTwoWaysToLetGoOfBytes) {
  struct Source final : ByteSource {
    void refill(Storage&) override {}
  };
  const Tensor x = random(), y = random();
  x.storage().set_source(make_ref<Source>());
  EXPECT_THROWS_SAYING(x.storage().evict(), ValueError, "only memory of bytetape's own");
  y.storage().copy_out();
  y.storage().set_source(make_ref<Source>());
  EXPECT_THROWS_SAYING(y.storage().drop(), ValueError, "that has a source, and is not on the host");
  EXPECT_EQ(y.to_vector<float>(), values.to_vector<float>());
}

TEST_F(Elsewhere, IsRefusedWhereThereIsNone) {
  EXPECT_THROWS_SAYING(values.storage().evict(), DeviceError, "no host memory that is pinned for cpu");
  float data[4] = {};
  const Tensor wrapped = from_blob(data, 4, DType::f32);
  EXPECT_THROWS_SAYING(wrapped.storage().evict(), ValueError, "only memory of bytetape's own");
  EXPECT_THROWS_SAYING(pin_memory(values).storage().evict(), ValueError, "only memory of bytetape's own");
  empty({0}, DType::f32, gpu).storage().evict();
  const Tensor x = random();
  x.storage().copy_out();
  x.storage().disallow_eviction();
  EXPECT_THROWS_SAYING(x.storage().evict(), CaptureError, "a captured step or another library has the address");
}

TEST_F(Elsewhere, IsPredicted) {
  const auto program = [](Device host, Device device) {
    const Tensor x = to(zeros({700}, DType::f32, host), device), y = x * 2;
    x.storage().evict();
    y.storage().copy_out();
    const Tensor z = y * 3;
    y.storage().evict();
    x + z;
    restore_ahead(y);
    y + z;
  };
  program(Device::cpu(), gpu);
  const auto done = fake->done;
  const std::uint64_t marks = fake->marks;
  program(Device::meta(), meta_gpu);
  EXPECT_EQ(fake->done, done) << "a prediction asks the device for nothing";
  EXPECT_EQ(fake->marks, marks);
  EXPECT_EQ(test::first_difference(fake->device.snapshot().events, fake->twin.snapshot().events), "");
  EXPECT_EQ(test::first_difference(fake->pinned.allocator().snapshot().events,
                                   fake->pinned_twin.allocator().snapshot().events),
            "");
}

}  // namespace
}  // namespace bytetape
