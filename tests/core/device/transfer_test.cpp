#include "bytetape/core/device/transfer.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/stand_in.h"

namespace bytetape {
namespace {

using memory::EventKind;
using memory::Role;
using test::random_tensor;

// Of a device whose transfers count.
std::size_t moved = 0;
int waits = 0;

void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) {
  EXPECT_NE(from.device, to.device);
  test::copy_bytes(from, to, bytes);
  moved += bytes;
}

class Transfer : public testing::Test {
 protected:
  Transfer() {
    moved = 0;
    waits = 0;
  }

  std::size_t workspaces(Device device) const {
    std::size_t count = 0;
    for (const memory::Event& e : memory::snapshot(device).events)
      count += e.kind == EventKind::alloc && e.role == Role::workspace;
    return count;
  }

  const test::StandIn stand_in{{.transfer = transfer, .synchronize = [](int) { ++waits; }}};
};

const Device gpu = Device::cuda();

TEST_F(Transfer, MovesDenseMemoryAsItLies) {
  const Tensor x = channels_last(random_tensor({2, 3, 4, 5}, DType::f32));
  const Tensor y = to(x, gpu);
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_EQ(moved, x.nbytes());
  EXPECT_EQ(workspaces(gpu), 0u);
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
}

TEST_F(Transfer, StagesWhatIsStridedOnItsOwnSide) {
  const Tensor x = random_tensor({6, 7}, DType::f32), part = narrow(x, 1, 2, 3);
  const Tensor y = to(part, gpu);
  EXPECT_EQ(workspaces(gpu), 0u);  // the host's was staged on the host
  EXPECT_EQ(y.to_vector<float>(), part.to_vector<float>());
  moved = 0;
  const Tensor there = to(x, gpu);
  copy_(narrow(there, 0, 1, 2), narrow(random_tensor({4, 7}, DType::f32), 0, 1, 2));  // dense on both sides
  EXPECT_EQ(workspaces(gpu), 0u);
  const Tensor columns = random_tensor({6, 2}, DType::f32);
  copy_(narrow(there, 1, 1, 2), columns);
  EXPECT_EQ(workspaces(gpu), 1u);
  EXPECT_EQ(narrow(there, 1, 1, 2).to_vector<float>(), columns.to_vector<float>());
}

// Dense memory travels as it lies, on whichever side that is; where neither side is dense, both are staged.
TEST_F(Transfer, StagesNoMoreThanItMust) {
  const Tensor images = channels_last(random_tensor({2, 3, 4, 5}, DType::f32)),
               there = zeros({2, 3, 4, 9}, DType::f32, gpu);
  const auto staged = [&](const Tensor& from, const Tensor& to) {
    memory::allocator(gpu).reset_log();
    memory::allocator(Device::cpu()).reset_log();
    copy_(to, from);
    const std::pair counts(workspaces(Device::cpu()), workspaces(gpu));
    EXPECT_EQ(to.to_vector<float>(), from.to_vector<float>());
    return counts;
  };
  const std::pair<std::size_t, std::size_t> there_alone{0, 1}, both{1, 1};
  const std::pair<std::size_t, std::size_t> host_alone{1, 0};
  EXPECT_EQ(staged(images, narrow(there, 3, 2, 5)), there_alone);
  EXPECT_EQ(staged(images, zeros({2, 3, 4, 5}, DType::f32, gpu)), host_alone) << "both are dense";
  EXPECT_EQ(staged(zeros({4}, DType::i32), zeros({4}, DType::f32, gpu)), there_alone) << "types of one size";
  EXPECT_EQ(staged(narrow(random_tensor({2, 3, 4, 7}, DType::f32), 3, 1, 5), narrow(there, 3, 2, 5)), both);
}

TEST_F(Transfer, SendsTheSmallerOfTwoTypes) {
  const Tensor bytes = randint(0, 255, {100}, DType::u8);
  const Tensor wide = empty({100}, DType::f32, gpu);
  copy_(wide, bytes);
  EXPECT_EQ(moved, 100u);
  EXPECT_EQ(wide.to_vector<float>(), to(bytes, DType::f32).to_vector<float>());
  moved = 0;
  const Tensor f64 = random_tensor({50}, DType::f64), narrowed = empty({50}, DType::f32, gpu);
  copy_(narrowed, f64);
  EXPECT_EQ(moved, 200u);
  EXPECT_EQ(narrowed.to_vector<float>(), to(f64, DType::f32).to_vector<float>());
}

TEST_F(Transfer, IsAnEventAndSoIsTheHostsWait) {
  Tensor x;
  {
    const memory::ModuleScope scope(memory::intern("net"));
    x = to(random_tensor({10}, DType::f32), gpu);
  }
  const double value = sum(x).item<double>();
  EXPECT_NE(value, 0);
  synchronize(gpu);
  EXPECT_EQ(waits, 1);
  const memory::Snapshot s = memory::snapshot(gpu);
  EXPECT_EQ(s.statistics.to_device.count, 1u);
  EXPECT_EQ(s.statistics.to_device.bytes, 40u);
  EXPECT_EQ(s.statistics.to_host.count, 1u);
  EXPECT_EQ(s.statistics.to_host.bytes, 4u);
  EXPECT_EQ(s.statistics.waits, 2u);
  std::vector<std::string> seen;
  for (const memory::Event& e : s.events)
    if (e.kind >= EventKind::to_device)
      seen.push_back(detail::concat(to_string(e.kind), " ", e.bytes, " ", memory::name_of(e.op), " in '",
                                    memory::name_of(e.module), "'"));
  EXPECT_EQ(seen, (std::vector<std::string>{"to_device 40 to in 'net'", "to_host 4 item in ''", "wait 0 item in ''",
                                            "wait 0  in ''"}));
  EXPECT_THAT(memory::summarize(s), testing::HasSubstr("the host waited 2 times"));
}

TEST_F(Transfer, AWaitForATwinIsCountedAndNoWait) {
  synchronize(Device::meta(gpu));
  EXPECT_EQ(waits, 0);
  EXPECT_EQ(memory::stats(Device::meta(gpu)).waits, 1u);
}

TEST_F(Transfer, OfATwinIsPredicted) {
  const auto program = [](Device device) {
    const Tensor x = to(random_tensor({6, 7}, DType::f32), device);
    copy_(narrow(x, 1, 1, 2), random_tensor({6, 2}, DType::f32));
  };
  program(gpu);
  program(Device::meta(gpu));
  EXPECT_EQ(memory::snapshot(gpu).events, memory::snapshot(Device::meta(gpu)).events);
}

TEST_F(Transfer, BetweenTwoDevicesOfOneKindMovesBytes) {
  const Tensor x = to(random_tensor({6, 7}, DType::f32), gpu);
  moved = 0;
  const Tensor y = to(x, Device::cuda(1));
  EXPECT_EQ(moved, x.nbytes());
  moved = 0;
  const Tensor z = to(x, gpu, DType::f64);
  EXPECT_EQ(moved, 0u) << "on one device nothing moves";
}

TEST_F(Transfer, OfNothingMovesNothing) {
  EXPECT_EQ(to(empty({0, 3}), gpu).numel(), 0);
  EXPECT_EQ(moved, 0u);
  EXPECT_EQ(memory::stats(gpu).to_device.count, 0u);
}

}  // namespace
}  // namespace bytetape
