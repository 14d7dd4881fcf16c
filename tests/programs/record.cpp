// Trains a small network on the CPU under a recording: tests of bytetape-memory read it. usage: record FILE BATCH
// [stop|meta|deep|device|two_devices|full|predicted]: as if it were killed in the end, with something on a second
// device, with more layers, with device times of every second step, with these and steps of another device, with a
// sixth step that runs out of memory, whose exception it prints, or on a meta device
#include <bytetape/bytetape.h>
#include <bytetape/core/memory/allocator.h>
#include <bytetape/core/memory/allocator/upstream.h>
#include <bytetape/core/memory/ledger/scope.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "tests/support/fake_timer.h"

using namespace bytetape;

namespace {

/// Launches what a GPU would run in a step: 1 ms in all.
void launch_kernels(test::FakeTimer& gpu) {
  {
    const memory::ModuleScope module(memory::intern("fc1"));
    const memory::OpScope op(memory::intern("linear"));
    gpu.launch("gemm<float>", 600'000);
    gpu.launch("bias\033[31m", 100'000);
  }
  const memory::PhaseScope phase(memory::Phase::backward);
  const memory::OpScope op(memory::intern("linear"));
  gpu.launch("gemm<float>", 300'000);
}

/// Takes two steps on a second device, whose numbers are those of steps of the CPU. The second one is timed.
void step_elsewhere(test::FakeTimer& gpu) {
  memory::Allocator other(Device::cuda(3), std::make_unique<memory::SimulatedUpstream>(),
                          memory::Allocator::Mode::caching, "", true);
  for (const std::uint32_t number : {3u, 4u}) {
    other.begin_step(number);
    gpu.launch("elsewhere", 5'000'000);
    other.end_step();
  }
}

/// Takes a step whose forward runs out of memory. Prints the exception.
void run_out_of_memory(nn::Sequential& net) {
  const Tensor x = zeros({4096, 784});
  memory::set_limit(memory::stats().reserved.current + (std::size_t{1} << 20));
  const memory::Step step;
  try {
    net(x);
  } catch (const OutOfMemory& e) { std::cout << e.what() << '\n'; }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string how = argc > 3 ? argv[3] : "";
  const bool is_timed = how == "device" || how == "two_devices";
  const DefaultDevice device(how == "predicted" ? Device::meta() : Device::cpu());
  test::FakeGpuTimes gpu;
  memory::Recording recording(argv[1], is_timed ? "rec\033[31mord" : "record",
                              {.device_times_every = is_timed ? 2u : 0u});
  nn::Sequential net;
  net.push_back("fc1", nn::Linear(784, 256)).push_back("relu", nn::ReLU());
  for (const char* block : {"block1", "block2"})
    if (how == "deep")
      net.push_back(block, nn::Sequential(nn::Linear(256, 256), nn::Tanh(), nn::Sigmoid(), nn::Linear(256, 256)));
  net.push_back("fc2", nn::Linear(256, 10));
  optim::Adam adam(net.parameters());
  const std::int64_t batch = std::stoi(argv[2]);
  if (how == "meta") empty({1000}, DType::f32, Device::meta());
  for (int i = 0; i < 5; ++i) {
    const memory::Step step;
    const Tensor x = zeros({batch, 784}, memory::Role::input);
    const Tensor y = zeros(batch, DType::i64, default_device(), memory::Role::input);
    adam.zero_grad();
    cross_entropy(net(x), y).backward();
    adam.step();
    launch_kernels(gpu.timer);
  }
  if (how == "two_devices") step_elsewhere(gpu.timer);
  if (how == "full") run_out_of_memory(net);
  if (how == "stop") {
    recording.flush();
    std::_Exit(0);
  }
}
