// Storage that goes to pinned memory and comes back, on a device of the host's memory. On a GPU:
// tests/cuda/save_on_cpu_test.cpp.
#include <memory>

#include "bytetape/bytetape.h"
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
  fake->done.clear();
  x.storage().copy_out();
  EXPECT_THAT(fake->done, ElementsAre("0>15", "copy out on 15"));
  fake->done.clear();
  x.storage().evict();  // whoever takes the memory on stream 0 comes behind the copy
  EXPECT_THAT(fake->done, ElementsAre("15>0"));
  fake->done.clear();
  {
    const StreamScope ahead(Stream::for_copies());
    x.storage().restore();
  }
  EXPECT_THAT(fake->done, ElementsAre("0>15", "copy on 15"));
  fake->done.clear();
  x + x;
  EXPECT_THAT(fake->done, ElementsAre("15>0"));
  x.storage().evict();
  fake->done.clear();
  x + x;
  EXPECT_THAT(fake->done, ElementsAre("15>0", "copy on 0"));
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

TEST_F(Elsewhere, IsRefusedWhereThereIsNone) {
  EXPECT_THROWS_SAYING(values.storage().evict(), DeviceError, "no host memory that is pinned for cpu");
  float data[4] = {};
  const Tensor wrapped = from_blob(data, 4, DType::f32);
  EXPECT_THROWS_SAYING(wrapped.storage().evict(), ValueError, "only memory of bytetape's own");
  EXPECT_THROWS_SAYING(pin_memory(values).storage().evict(), ValueError, "only memory of bytetape's own");
  empty({0}, DType::f32, gpu).storage().evict();
  const Tensor x = random();
  x.storage().copy_out();
  x.storage().stay();
  EXPECT_THROWS_SAYING(x.storage().evict(), CaptureError, "a captured step works with this memory");
}

TEST_F(Elsewhere, IsPredicted) {
  const auto program = [](Device host, Device device) {
    const Tensor x = to(zeros({700}, DType::f32, host), device), y = x * 2;
    x.storage().evict();
    y.storage().copy_out();
    const Tensor z = y * 3;
    y.storage().evict();
    x + z;
    {
      const StreamScope ahead(Stream::for_copies());
      y.storage().restore();
    }
    y + z;
  };
  program(Device::cpu(), gpu);
  program(Device::meta(), meta_gpu);
  EXPECT_EQ(test::first_difference(fake->device.snapshot().events, fake->twin.snapshot().events), "");
  EXPECT_EQ(test::first_difference(fake->pinned.allocator().snapshot().events,
                                   fake->pinned_twin.allocator().snapshot().events),
            "");
}

}  // namespace
}  // namespace bytetape
