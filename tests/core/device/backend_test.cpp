#include "bytetape/core/device/backend.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/kernels/pointwise.h"
#include "bytetape/core/kernels/random.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/stats.h"

namespace bytetape {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A second backend: the host's memory under another name, and a table of two entries.
std::atomic<int> fills{0};

void counted_fill(Scalar value, const View& y) {
  ++fills;
  cpu::copy_kernels().fill(value, y);
}

const CopyKernels two_entries{
    .fill = counted_fill,
    .copy = cpu::copy_kernels().copy,
};
const KernelTable two_kernels(two_entries);

memory::Allocator& device_memory(int) {
  static memory::Allocator a(Device::cuda(), std::make_unique<memory::HostUpstream>());
  return a;
}

memory::Allocator& predicted_memory(int) {
  static memory::Allocator a(Device::meta(Device::cuda()), std::make_unique<memory::SimulatedUpstream>());
  return a;
}

class Backends : public testing::Test {
 protected:
  Backends() { register_backend(DeviceType::cuda, {&two_kernels, device_memory, predicted_memory}); }
  ~Backends() override { register_backend(DeviceType::cuda, {}); }
};

TEST(Backend, IsUnknownUntilRegistered) {
  EXPECT_THAT([] { zeros({2}, DType::f32, Device::cuda(200)); }, ThrowsMessage<DeviceError>(HasSubstr("cuda")));
}

TEST(Backend, AllocatesDirectlyWhereTheEnvironmentSaysSo) {
  const char* before = std::getenv("BYTETAPE_NO_CACHE");
  const std::string restored = before ? before : "";
  const auto mode = [](const char* value) {
    value ? setenv("BYTETAPE_NO_CACHE", value, 1) : unsetenv("BYTETAPE_NO_CACHE");
    return memory::mode_from_environment();
  };
  for (const char* yes : {"1", "yes", "00"}) EXPECT_EQ(mode(yes), memory::Allocator::Mode::direct) << yes;
  for (const char* no : {"", "0"}) EXPECT_EQ(mode(no), memory::Allocator::Mode::caching) << '"' << no << '"';
  EXPECT_EQ(mode(nullptr), memory::Allocator::Mode::caching) << "unset";
  mode(before ? restored.c_str() : nullptr);
}

TEST(Backend, ThereIsOneCpu) {
  Device second;
  second.index = 1;
  for (const Device device : {second, Device::meta(second)})
    EXPECT_THAT([&] { empty({2}, DType::f32, device); },
                ThrowsMessage<DeviceError>(HasSubstr("there is one cpu, not a cpu:1")));
}

TEST(Backend, NobodyWaitsForTheCpu) {
  const std::uint64_t waits = memory::stats(Device::cpu()).waits;
  synchronize(Device::cpu());
  EXPECT_EQ(memory::stats(Device::cpu()).waits, waits);
}

// These tests are linked without CUDA's kernels in every build.
TEST(Backend, WithoutCudaNamesTheReasonAndTheOption) {
  EXPECT_THAT([] { zeros({2}, DType::f32, Device::cuda()); },
              ThrowsMessage<DeviceError>(testing::MatchesRegex(
                  ".*this build has no CUDA: [^ ].+\\. Configure with -DBYTETAPE_CUDA=ON and build again; .*")));
}

TEST_F(Backends, RunTheirOwnKernelsOnTheirOwnMemory) {
  const std::size_t host_before = memory::stats(Device::cpu()).allocated.current;
  const int fills_before = fills;
  const Tensor x = full({4, 5}, 3, DType::f32, Device::cuda());
  EXPECT_EQ(fills, fills_before + 1);
  EXPECT_EQ(x.device(), Device::cuda());
  EXPECT_GE(memory::stats(Device::cuda()).allocated.current, x.nbytes());
  EXPECT_EQ(memory::stats(Device::cpu()).allocated.current, host_before);
}

TEST_F(Backends, SayWhatTheyCannotDo) {
  const Tensor x = full({3}, 2, DType::f32, Device::cuda());
  EXPECT_THAT([&] { run<&PointwiseKernels::relu>(x.device(), x.read(), x.write()); },
              ThrowsMessage<NotImplemented>(AllOf(HasSubstr("relu"), HasSubstr("not implemented on cuda"))));
  EXPECT_THAT([&] { run_planned<&MatmulKernels::matmul>(x.device(), {}); },
              ThrowsMessage<NotImplemented>(AllOf(HasSubstr("matmul"), HasSubstr("not implemented on cuda"))));
}

TEST_F(Backends, HaveAMetaTwinThatRunsNothing) {
  const int fills_before = fills;
  const Device meta = Device::meta(Device::cuda());
  const Tensor x = full({1000, 1000}, 1, DType::f32, meta);
  EXPECT_EQ(fills, fills_before);
  EXPECT_GE(memory::stats(meta).allocated.current, x.nbytes());
}

int plans = 0, launches = 0;
Plan counted_plan(const RandpermArgs& args) {
  ++plans;
  return {.workspace = static_cast<std::size_t>(args.y.numel()) * 4096, .algorithm = 7};
}
void counted_launch(const RandpermArgs&, const Plan& plan, Workspace ws) {
  ++launches;
  EXPECT_EQ(plan.algorithm, 7);
  EXPECT_EQ(ws.bytes, plan.workspace);
  EXPECT_NE(ws.data, nullptr);
}
const RandomKernels counted{.randperm = {counted_plan, counted_launch}};
const KernelTable planned_kernel(counted);

TEST_F(Backends, PlanOnceAndLaunchOnlyWhereTheDeviceIs) {
  register_backend(DeviceType::cuda, {&planned_kernel, device_memory, predicted_memory});
  for (const Device device : {Device::cuda(), Device::meta(Device::cuda())}) {
    plans = launches = 0;
    const Tensor y = empty({3}, DType::i64, device);
    const auto held = [&] {
      return memory::stats(device).by_role[static_cast<std::size_t>(memory::Role::workspace)].current;
    };
    {
      const Prepared<&RandomKernels::randperm> kernel(device, {{}, y.write()});
      EXPECT_EQ(held(), 3u * 4096);
      for (int i = 0; i < 2; ++i) kernel.launch({{}, y.write()});
    }
    EXPECT_EQ(held(), 0u);
    EXPECT_EQ(plans, 1);
    EXPECT_EQ(launches, device.is_meta ? 0 : 2);
  }
}

TEST_F(Backends, GiveWayToTheBuildsOwn) {
  zeros({2}, DType::f32, Device::cuda());
  register_backend(DeviceType::cuda, {});
  EXPECT_THAT([] { zeros({2}, DType::f32, Device::cuda()); },
              ThrowsMessage<DeviceError>(HasSubstr("this build has no CUDA")));
}

TEST_F(Backends, KeepTheirDataFromTheHost) {
  const Tensor x = full({3}, 2, DType::f32, Device::cuda());
  EXPECT_THROW(x.data<float>(), DeviceError);
}

}  // namespace
}  // namespace bytetape
