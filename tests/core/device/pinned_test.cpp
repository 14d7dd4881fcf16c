// Pinned memory of the host, for a device of the host's memory that reads when it is told to. What a GPU makes of it is
// in tests/cuda/runtime/stream_test.cpp.
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/device/pinned.h"
#include "bytetape/core/memory/allocator.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using memory::PinnedMemory;
using memory::Role;
using test::random_tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Pinned : public testing::Test {
 protected:
  std::size_t held() { return fake->pinned.allocator().statistics().allocated.current; }
  const std::unique_ptr<test::FakeGpu> fake = std::make_unique<test::FakeGpu>();
  const Device gpu = test::FakeGpu::gpu, meta_gpu = test::FakeGpu::meta_gpu;
};

TEST_F(Pinned, IsMemoryOfTheCpuWithBooksOfItsOwn) {
  const Tensor x = random_tensor({300}, DType::f32), y = pin_memory(x);
  EXPECT_FALSE(is_pinned(x));
  EXPECT_TRUE(is_pinned(y));
  EXPECT_TRUE(is_pinned(narrow(y, 0, 1, 7)));
  EXPECT_TRUE(pin_memory(y).is_same(y));
  EXPECT_EQ(y.device(), Device::cpu());
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ((y + 1).to_vector<float>(), (x + 1).to_vector<float>());
  EXPECT_FALSE(is_pinned(y + 1));
  const memory::Snapshot s = fake->pinned.allocator().snapshot();
  EXPECT_EQ(s.statistics.allocated.current, 1536u);
  EXPECT_EQ(s.name, "pinned:cuda");
  EXPECT_THAT(memory::summarize(s), testing::StartsWith("memory on pinned:cuda: peak 1.50 KiB allocated"));
  EXPECT_EQ(fake->pinned_twin.allocator().snapshot().name, "pinned:meta:cuda");
  EXPECT_EQ(fake->pinned.allocator().device(), Device::cpu());
  EXPECT_EQ(fake->pinned_twin.allocator().device(), Device::meta());
}

TEST_F(Pinned, IsRefusedWhereItMakesNoSense) {
  EXPECT_THAT([] { empty_pinned({3}, DType::f32, Device::cpu()); },
              ThrowsMessage<DeviceError>("empty_pinned: there is no host memory that is pinned for cpu"));
  EXPECT_THAT(
      [&] { pin_memory(empty({3}, DType::f32, gpu)); },
      ThrowsMessage<DeviceError>("pin_memory: f32(3,) on cuda cannot be pinned for cuda: only what is on cpu can"));
  EXPECT_THAT([&] { pin_memory(empty({3}), meta_gpu); },
              ThrowsMessage<DeviceError>(HasSubstr("only what is on meta can")));
  EXPECT_THAT([&] { pin_memory(pin_memory(ones({3})), meta_gpu); },
              ThrowsMessage<DeviceError>(HasSubstr("only what is on meta can")));
  EXPECT_THAT([] { pin_memory(pin_memory(ones({3})), Device::cpu()); },
              ThrowsMessage<DeviceError>("pin_memory: there is no host memory that is pinned for cpu"));
  EXPECT_THROW(pin_memory({}), ValueError);
  EXPECT_THAT([] { pin_memory(ones({3}), Device::cpu()); },
              ThrowsMessage<DeviceError>("pin_memory: there is no host memory that is pinned for cpu"));
}

TEST_F(Pinned, KeepsTheRoleOfAnInputAlone) {
  for (const auto& [role, kept] : {std::pair(Role::input, Role::input), {Role::parameter, Role::temporary}}) {
    const Tensor x = zeros({3}, DType::f32, Device::cpu(), role);
    EXPECT_EQ(pin_memory(x).storage().role(), kept);
  }
  EXPECT_EQ(empty_pinned({0, 3}, DType::f32, gpu).numel(), 0);
}

TEST_F(Pinned, IsReadUntilTheLastOfItsMarks) {
  const Tensor x = pin_memory(ones({3}));
  x.storage().set_read_until(7);
  x.storage().set_read_until(3);
  fill_(x, 2);
  EXPECT_EQ(fake->waited, 7u);
}

TEST_F(Pinned, IsReadFromWhereItLies) {
  const Tensor x = pin_memory(random_tensor({6, 7}, DType::f32));
  const Tensor y = to(x, gpu), z = to(narrow(x, 0, 2, 3), gpu);
  EXPECT_EQ(fake->sent_from, (std::vector<const void*>{x.storage().data(), narrow(x, 0, 2, 3).read().data()}));
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(fake->device.statistics().waits, 1u);  // to_vector()'s
  EXPECT_EQ(fake->waited, 0u);
}

TEST_F(Pinned, IsWrittenOnceTheDeviceHasReadIt) {
  const Tensor x = pin_memory(ones({5}));
  const Tensor y = to(x, gpu), z = to(x, gpu);
  EXPECT_EQ((x + 1).to_vector<float>()[0], 2);  // reading waits for nothing
  EXPECT_EQ(fake->waited, 0u);
  fill_(x, 2);
  EXPECT_EQ(fake->waited, 2u);
  const Tensor w = to(x, gpu);
  Tensor(x).data<float>()[0] = 7;
  EXPECT_EQ(fake->waited, 3u);
}

TEST_F(Pinned, ComesBackBehindOthersOnceItWasRead) {
  constexpr auto kept = PinnedMemory::kept_back;
  std::vector<const void*> places;
  for (std::size_t i = 0; i < 3 * kept; ++i) {
    const Tensor x = pin_memory(ones({5}));
    places.push_back(x.storage().data());
    to(x, gpu);
    EXPECT_EQ(fake->waited, i < kept ? 0 : i - kept);
  }
  EXPECT_EQ(held(), kept * 512);
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i], places[i % (kept + 1)]) << i;
  synchronize(gpu);
  EXPECT_EQ(held(), 0u);
}

TEST_F(Pinned, ThatNobodyReadsComesBackAtOnce) {
  pin_memory(ones({5}));
  EXPECT_EQ(held(), 0u);
}

TEST_F(Pinned, IsTakenInRatherThanMissed) {
  fake->pinned.allocator().set_limit(std::size_t{2} << 20);
  for (int i = 0; i < 10; ++i) to(pin_memory(ones({200'000})), gpu);  // two of them fit
  EXPECT_LE(held(), std::size_t{2} << 20);
  EXPECT_THROW(pin_memory(ones({2'000'000})), OutOfMemory);
}

TEST_F(Pinned, StagesWhatIsNot) {
  const Tensor x = random_tensor({2'500'000}, DType::f32);  // 10 MB: three pieces
  EXPECT_EQ(to(x, gpu).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(fake->sent_from.size(), 3u);
  EXPECT_EQ(fake->device.statistics().to_device.count, 1u);
  EXPECT_EQ(held(), std::size_t{10'000'384});  // of the role workspace, until others follow
  EXPECT_EQ(fake->pinned.allocator().statistics().by_role[static_cast<int>(Role::workspace)].current, held());
  const Tensor part = narrow(random_tensor({6, 7}, DType::f32), 1, 2, 3);
  const std::size_t pageable = memory::stats(Device::cpu()).allocations;
  const Tensor there = to(part, gpu);
  EXPECT_EQ(memory::stats(Device::cpu()).allocations, pageable);  // gathered into pinned memory
  EXPECT_EQ(there.to_vector<float>(), part.to_vector<float>());
  const std::uint64_t on_device = fake->device.statistics().allocations;
  EXPECT_EQ(narrow(there, 1, 1, 2).to_vector<float>(), narrow(part, 1, 1, 2).to_vector<float>());
  EXPECT_EQ(fake->device.statistics().allocations, on_device + 1);  // gathered where it lies
}

TEST_F(Pinned, StagesWhatComesToStridedMemory) {
  const Tensor x = random_tensor({6, 3}, DType::f32), there = to(x, gpu), wide = zeros({6, 7}, DType::f32);
  const std::size_t pageable = memory::stats(Device::cpu()).allocations;
  copy_(narrow(wide, 1, 2, 3), there);
  EXPECT_EQ(memory::stats(Device::cpu()).allocations, pageable) << "by way of pinned memory";
  EXPECT_EQ(narrow(wide, 1, 2, 3).to_vector<float>(), x.to_vector<float>());
}

// Copies are late on this stream: memory that is given out again before they are done would change them.
TEST_F(Pinned, ThatIsStridedIsStagedInMemoryThatIsNobodyElsesUntilItsMark) {
  const Tensor x = pin_memory(random_tensor({6, 7}, DType::f32)), part = narrow(x, 1, 2, 3);
  Tensor there;
  {
    const StreamScope copies(Stream::for_copies());
    there = to(part, gpu);
  }
  pin_memory(full({6, 3}, 100, DType::f32));
  EXPECT_EQ(there.to_vector<float>(), part.to_vector<float>());
}

TEST_F(Pinned, IsPredicted) {
  const auto program = [](Device host, Device device) {
    const Tensor x = ones({6, 7}, DType::f32, host), pinned = pin_memory(x, device);
    for (int i = 0; i < 7; ++i) to(pinned, device);
    copy_(empty({6, 3}, DType::f32, device), narrow(x, 1, 2, 3));
    for (int i = 0; i < 7; ++i) to(pin_memory(zeros({9}, DType::f32, host), device), device);
    to(zeros({2'500'000}, DType::f32, host), device);
    synchronize(device);
  };
  program(Device::cpu(), gpu);
  program(Device::meta(), meta_gpu);
  EXPECT_EQ(fake->device.snapshot().events, fake->twin.snapshot().events);
  EXPECT_EQ(fake->pinned.allocator().snapshot().events, fake->pinned_twin.allocator().snapshot().events);
}

TEST_F(Pinned, OfTheDeviceItselfServesWhatIsCopiedThereWithinAPrediction) {
  const Tensor x = random_tensor({6, 7}, DType::f32);
  Tensor there;
  memory::predict(gpu, [&] { return [&] { there = to(x, gpu); }; });
  EXPECT_EQ(there.to_vector<float>(), x.to_vector<float>());
  EXPECT_GT(fake->pinned.allocator().statistics().allocations, 0u);
  EXPECT_EQ(fake->pinned_twin.allocator().statistics().allocations, 0u);
}

}  // namespace
}  // namespace bytetape
