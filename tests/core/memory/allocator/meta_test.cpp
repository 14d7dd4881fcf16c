// A meta device accounts for memory exactly as the device that it stands in for.
#include <gtest/gtest.h>

#include <memory>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/meta_allocators.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/core/memory/step.h"
#include "bytetape/core/memory/timeline.h"
#include "tests/support/events.h"
#include "tests/support/fake_gpu.h"

namespace bytetape {
namespace {

using memory::Allocator;
using memory::ModuleScope;
using memory::Op;
using memory::Phase;
using memory::PhaseScope;
using memory::Role;
using test::first_difference;
using test::record_events;

// The traffic of a training step of two layers, written out by hand.
void program(Device device, int steps, std::int64_t batch) {
  const memory::NameId layers[] = {memory::intern("net.fc1"), memory::intern("net.fc2")};
  const std::int64_t widths[] = {784, 1000, 10};
  std::vector<Tensor> parameters, gradients;
  for (int l = 0; l < 2; ++l) {
    const ModuleScope module(layers[l]);
    parameters.push_back(zeros({widths[l], widths[l + 1]}, DType::f32, device));
    parameters.back().storage().set_role(Role::parameter, layers[l]);
  }
  for (int step = 0; step < steps; ++step) {
    const memory::Step mark(device);
    Tensor x;
    {
      const PhaseScope phase(Phase::data);
      x = full({batch, 784}, 0.5, DType::f32, device);
      x.storage().set_role(Role::input);
    }
    std::vector<Tensor> saved;
    for (int l = 0; l < 2; ++l) {
      const ModuleScope module(layers[l]);
      const Op<"matmul"> op;
      const HeldWorkspace scratch(static_cast<std::size_t>(100000 * (l + 1)), device);
      const Tensor y = empty({batch, widths[l + 1]}, DType::f32, device);
      run<&CopyKernels::fill>(device, Scalar(1), y.write());
      y.storage().hold_saved();
      saved.push_back(y);
    }
    const PhaseScope phase(Phase::backward);
    for (int l = 1; l >= 0; --l) {
      const ModuleScope module(layers[l]);
      const Op<"matmul"> op;
      Tensor g = empty_like(parameters[static_cast<std::size_t>(l)]);
      if (step == 0) {
        gradients.push_back(g);
        g.storage().set_role(Role::gradient, layers[l]);
      }
      const Tensor y = std::move(saved.back());
      saved.pop_back();
      y.storage().drop_saved();
    }
  }
}

TEST(Meta, SameEventsAsTheDeviceItStandsFor) {
  for (std::int64_t batch : {1, 64, 5000}) {
    const auto run_it = [&](Device d) { program(d, 3, batch); };
    const auto on_cpu = record_events(Device::cpu(), run_it);
    const auto on_meta = record_events(Device::meta(), run_it);
    EXPECT_GT(on_cpu.size(), 50u);
    EXPECT_EQ(first_difference(on_cpu, on_meta), "");
  }
}

TEST(Meta, PredictsThePeaksToTheByte) {
  memory::Statistics books[2];
  for (int i = 0; i < 2; ++i) {
    const Device device = i ? Device::meta() : Device::cpu();
    memory::empty_cache(device);
    memory::reset_peaks(device);
    program(device, 2, 300);
    books[i] = memory::stats(device);
  }
  EXPECT_GT(books[0].allocated.peak, 0u);
  EXPECT_EQ(books[0].allocated.peak, books[1].allocated.peak);
  EXPECT_EQ(books[0].requested.peak, books[1].requested.peak);
  EXPECT_EQ(books[0].reserved.peak, books[1].reserved.peak);
  EXPECT_EQ(books[0].at_peak, books[1].at_peak);
}

TEST(Meta, PredictsWhatWouldNotFit) {
  Allocator& meta = memory::allocator(Device::meta());
  meta.empty_cache();
  meta.set_limit(std::size_t{8} << 20);
  EXPECT_THROW(program(Device::meta(), 1, 5000), OutOfMemory);
  EXPECT_EQ(meta.statistics().allocated.current, 0u);
  meta.set_limit(std::numeric_limits<std::size_t>::max());
  program(Device::meta(), 1, 5000);
}

TEST(Meta, HoldsMoreThanAnyMachine) {
  const Tensor x = empty({1 << 20, 1 << 20, 1 << 10}, DType::f64, Device::meta());
  EXPECT_EQ(x.nbytes(), std::size_t{1} << 53);
}

// In a prediction, pinned memory may be needed before that of the device.
TEST(MetaAllocators, KeepADevicesMemoryAndItsPinnedMemoryApart) {
  const test::FakeGpu fake;
  const Device gpu = Device::meta(fake.gpu);
  for (const bool pinned_first : {false, true}) {
    memory::MetaAllocators all;
    if (pinned_first) all.pinned(gpu);
    Allocator& memory = all.allocator(gpu);
    memory::PinnedMemory* const pinned = all.pinned(gpu);
    ASSERT_NE(pinned, nullptr);
    EXPECT_NE(&pinned->allocator(), &memory);
    EXPECT_EQ(&all.allocator(gpu), &memory);
    EXPECT_EQ(all.pinned(gpu), pinned);
    EXPECT_NE(&all.allocator(Device::meta()), &memory);
    EXPECT_EQ(all.pinned(Device::meta()), nullptr);
    EXPECT_EQ(all.all().size(), 3u);
    EXPECT_EQ(memory.device(), gpu);
    EXPECT_EQ(pinned->allocator().name(), "pinned:meta:cuda");
  }
}

TEST(FirstDifference, NamesTheEvent) {
  const auto log = record_events(Device::meta(), [](Device d) { program(d, 1, 7); });
  EXPECT_EQ(first_difference(log, log), "");
  auto other = log;
  other[5].bytes += 512;
  EXPECT_EQ(first_difference(log, other).rfind("event 5 of ", 0), 0u) << first_difference(log, other);
  other = log;
  other.pop_back();
  EXPECT_NE(first_difference(log, other).find("(the second log ends)"), std::string::npos);
  EXPECT_NE(first_difference(other, log).find("(the first log ends)"), std::string::npos);
}

TEST(FirstDifference, MayBeOneOfMoreThanNames) {
  const auto log = record_events(Device::meta(), [](Device d) { program(d, 1, 7); });
  auto other = log;
  other[5].op = memory::intern("another op");
  other[6].module = other[6].old_module = memory::intern("another.module");
  EXPECT_EQ(first_difference(log, other).rfind("event 5 of ", 0), 0u);
  EXPECT_EQ(first_difference(log, other, memory::Names::ignored), "");
  other[7].bytes += 512;
  EXPECT_EQ(first_difference(log, other, memory::Names::ignored).rfind("event 7 of ", 0), 0u);
}

}  // namespace
}  // namespace bytetape
