// The work and the waits in recordings of steps on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/ledger/host_wait.h"
#include "bytetape/core/memory/work.h"
#include "tests/cuda/gpu.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

/// FLOP, bytes and launches by op, phase and precision.
using Counts = std::map<std::string, std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>>;

class CudaWork : public GpuTest {
 protected:
  static memory::Log recorded(Device device, int steps, const std::function<void()>& step) {
    const TemporaryDir dir;
    const DefaultDevice here(device);
    memory::Recording recording(dir / "run.memlog");
    for (int i = 0; i < steps; ++i) {
      const memory::Step marks(device);
      step();
    }
    recording.finish();
    return memory::read_log(dir / "run.memlog");
  }
  static Counts counts_of(const memory::Log& log, std::uint32_t table) {
    Counts counts;
    for (const memory::WorkCount& w : log.work_counts) {
      if (w.table != table) continue;
      auto& [flop, bytes, launches] = counts[log.names[w.op] + " " + to_string(w.phase) + " " + to_string(w.precision)];
      flop += w.flop;
      bytes += w.bytes;
      launches += w.launches;
    }
    return counts;
  }
};

struct Network {
  nn::Conv2d conv{3, 16, 3};
  nn::Linear linear{16 * 30 * 30, 10};
  Tensor x = ones({8, 3, 32, 32}), y = zeros({8}, DType::i64);
  Tensor step() {
    for (nn::Module* m : {static_cast<nn::Module*>(&conv), static_cast<nn::Module*>(&linear)}) m->zero_grad();
    Tensor loss = cross_entropy(linear(flatten(relu(conv(x)), 1)), y);
    loss.backward();
    return loss;
  }
};

TEST_F(CudaWork, IsThatOfTheMetaDevice) {
  const auto counted = [](Device device) {
    const DefaultDevice here(device);
    Network net;
    net.step();  // gradients exist
    const memory::Log log = recorded(device, 1, [&] { net.step(); });
    return counts_of(log, log.counted_steps.at(0).table);
  };
  const Counts real = counted(gpu);
  EXPECT_EQ(real, counted(Device::meta(gpu)));
  EXPECT_EQ(std::get<0>(real.at("linear forward f32")), 2u * 8 * 10 * 16 * 30 * 30);
  cuda::set_allow_tf32(true);
  const Counts rounded = counted(gpu);
  cuda::set_allow_tf32(false);
  EXPECT_EQ(std::get<0>(rounded.at("linear forward tf32")), 2u * 8 * 10 * 16 * 30 * 30);
}

TEST_F(CudaWork, OfACapturedStepIsThatOfEachReplay) {
  const DefaultDevice here(gpu);
  Network net;
  auto captured = capture([&] { return net.step(); });
  const memory::Log log = recorded(gpu, 6, [&] { captured(); });
  ASSERT_TRUE(captured.is_captured());
  ASSERT_EQ(log.counted_steps.size(), 6u);
  const Counts plain = counts_of(log, log.counted_steps[1].table);
  for (const std::size_t replay : {2u, 3u, 5u}) {
    Counts counts = counts_of(log, log.counted_steps[replay].table);
    for (const auto& [of, count] : plain) EXPECT_EQ(counts[of], count) << of << " in step " << replay + 1;
  }
  EXPECT_EQ(log.counted_steps[4].table, log.counted_steps[5].table) << "equal replays share a table";
}

// The host launches some milliseconds of products, and then reads a value.
TEST_F(CudaWork, HasWaitsOfTheHostAsRowsOfTheirOwn) {
  const DefaultDevice here(gpu);
  const Tensor a = randn({4096, 4096}), b = randn({4096, 4096});
  matmul(a, b);
  synchronize(gpu);
  const memory::Log log = recorded(gpu, 3, [&] {
    Tensor y;
    for (int i = 0; i < 10; ++i) y = matmul(a, b);
    select(select(y, 0, 0), 0, 0).item<float>();
  });
  for (const memory::StepTime& step : memory::step_times(log)) {
    std::uint64_t waits = 0, others = 0, calls = 0, sum = 0;
    for (const memory::OpTime& r : step.rows) {
      sum += r.time;
      const bool is_wait = log.names[r.op] == memory::host_wait_name;
      (is_wait ? waits : others) += r.time;
      if (is_wait) calls += r.calls;
    }
    EXPECT_EQ(sum, step.time());
    EXPECT_GE(calls, 1u);
    EXPECT_GT(waits, 2 * others) << "step " << step.step << ": ten products of 4096 take milliseconds";
  }
}

TEST_F(CudaWork, WaitsInSynchronizeToo) {
  const DefaultDevice here(gpu);
  const Tensor a = randn({4096, 4096});
  const memory::Log log = recorded(gpu, 1, [&] {
    for (int i = 0; i < 10; ++i) matmul(a, a);
    synchronize(gpu);
  });
  const memory::StepTime step = memory::step_times(log).at(0);
  const auto wait = std::find_if(step.rows.begin(), step.rows.end(),
                                 [&](const memory::OpTime& r) { return log.names[r.op] == memory::host_wait_name; });
  ASSERT_NE(wait, step.rows.end());
  EXPECT_EQ(wait->calls, 1u);
  EXPECT_GT(wait->time, step.time() / 2);
}

}  // namespace
}  // namespace bytetape::test
