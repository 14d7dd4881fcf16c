// Trains a small network on the CPU under a recording: tests of bytetape-memory read it. usage: record FILE BATCH
// [stop|meta|deep|device]: as if it were killed in the end, with something on a second device, with more layers, or
// with device times of every second step
#include <bytetape/bytetape.h>
#include <bytetape/core/memory/ledger/scope.h>

#include <cstdlib>
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
    gpu.launch("bias", 100'000);
  }
  const memory::PhaseScope phase(memory::Phase::backward);
  const memory::OpScope op(memory::intern("linear"));
  gpu.launch("gemm<float>", 300'000);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string how = argc > 3 ? argv[3] : "";
  test::FakeGpuTimes gpu;
  memory::Recording recording(argv[1], "record", {.device_times_every = how == "device" ? 2u : 0u});
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
    const Tensor x = zeros({batch, 784}, DType::f32, Device::cpu(), memory::Role::input);
    const Tensor y = zeros(batch, DType::i64, Device::cpu(), memory::Role::input);
    adam.zero_grad();
    cross_entropy(net(x), y).backward();
    adam.step();
    launch_kernels(gpu.timer);
  }
  if (how == "stop") {
    recording.flush();
    std::_Exit(0);
  }
}
