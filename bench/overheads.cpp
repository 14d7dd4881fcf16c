// Times the framework's overheads, and prints a JSON line for each, with the names of shared/bench/torch_peer.cpp.
#include <CLI/CLI.hpp>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/harness.h"
#include "bench/training.h"

#include "bytetape/core/memory/allocator.h"

namespace {

using namespace bytetape;

std::string device_name() { return default_device() == Device::cpu() ? "cpu" : "cuda"; }

constexpr std::size_t events = std::size_t{1} << 20;

void figure(const char* name, double per, int burst, const std::function<void()>& f) {
  memory::allocator(default_device()).reset_log(events);  // room for every event, because a full log only counts
  const bench::Timing t = bench::time(burst / 4 + 1, burst, f, [] { synchronize(default_device()); });
  const nlohmann::ordered_json line{
      {"name", name}, {"device", device_name()}, {"ns", t.median / per}, {"min", t.min / per}, {"max", t.max / per}};
  std::cout << line.dump() << std::endl;
}

/// Fills the log once, because the first use of its pages is slow.
void use_log(memory::Allocator& a) {
  a.reset_log(events);
  for (std::size_t i = 0; i < events / 2; ++i) a.deallocate(a.allocate(512, {}));
}

/// Allocates and frees a cached block, with tracking.
void allocations() {
  memory::Allocator& a = memory::allocator(default_device());
  const auto pair = [&](std::size_t bytes) { return [&a, bytes] { a.deallocate(a.allocate(bytes, {})); }; };
  use_log(a);
  figure("alloc_free_hit", 1, 20000, pair(std::size_t{4} << 20));
  figure("alloc_free_small", 1, 20000, pair(512));
  figure("alloc_free_64mib", 1, 20000, pair(std::size_t{64} << 20));
}

/// Writes the log as JSON with write_timeline.
void dump() {
  memory::Allocator& a = memory::allocator(default_device());
  a.reset_log(100'000);
  for (int i = 0; i < 50'000; ++i) a.deallocate(a.allocate(512, {}));
  const memory::Snapshot s = a.snapshot();
  std::ofstream nowhere("/dev/null");
  figure("dump_100000_events", 1, 3, [&] { memory::write_timeline(s, nowhere); });
}

void operations() {
  use_log(memory::allocator(default_device()));
  const Tensor a = randn({16}), b = randn({16});
  {
    const NoGrad no_grad;
    figure("op_no_grad", 1, 20000, [&] { Tensor y = a + b; });
  }
  {
    const NoGrad no_grad;
    const Tensor x = randn({16, 16}), weight = randn({16, 16}), bias = randn({16});
    figure("linear_no_grad", 1, 5000, [&] { Tensor y = linear(x, weight, bias); });
  }
  Tensor w = randn({16});
  w.set_requires_grad();
  figure("op_grad", 1, 20000, [&] { Tensor y = w + b; });
  figure("chain_fwd_bwd_op", 100, 200, [&] {
    Tensor y = w + b;
    for (int i = 1; i < 100; ++i) y = y + b;
    y.backward(b);
    w.set_grad({});
  });
}

void steps() {
  const bool on_cpu = default_device() == Device::cpu();
  for (const bench::Workload& w : bench::workloads()) {
    const bool mlp = w.name == "mlp_b256_fp32", cnn = w.name == "mnist_cnn_b64_fp32";
    if (!mlp && !cnn) continue;
    bench::Training training(w);
    memory::Allocator& a = memory::allocator(default_device());
    figure(mlp ? "mlp_step" : "cnn_step", 1, !on_cpu ? 300 : mlp ? 20 : 8, [&] { training.step(); });
    const auto before = a.statistics().allocations;
    training.step();
    const nlohmann::ordered_json line{{"name", mlp ? "mlp_step_allocations" : "cnn_step_allocations"},
                                      {"device", device_name()},
                                      {"count", a.statistics().allocations - before}};
    std::cout << line.dump() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times allocation, dispatch, recording and whole steps; prints a JSON line for each."};
  int threads = 0;
  std::string device = "cpu";
  app.add_option("--device", device, "cpu or cuda");
  app.add_option("threads", threads, "CPU threads; default: all");
  CLI11_PARSE(app, argc, argv);
  return bench::run("overheads", [&] {
    if (threads) set_num_threads(threads);
    const DefaultDevice here(Device::parse(device));
    allocations();
    dump();
    operations();
    steps();
  });
}
