// Trains on several ranks, of which one fails in a step. Each rank writes how it ended to a file.
// usage: failing_ranks FOLDER FAILURE RANK STEP [cuda]
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "bytetape/bytetape.h"

using namespace bytetape;

namespace {

constexpr int steps = 6;
constexpr std::chrono::seconds timeout(6);

struct Scenario {
  std::string folder, failure;
  int rank, step;
  bool is_on_gpu;
};

void fail_as(const Scenario& scenario, const dist::Group& world) {
  if (scenario.failure == "throws") throw ValueError("the disk is full");
  if (scenario.failure == "dies") std::raise(SIGKILL);
  if (scenario.failure == "stops") std::raise(SIGSTOP);
  if (scenario.failure == "other") dist::broadcast(zeros({2}), world);
  if (scenario.failure == "size") dist::all_reduce(zeros({3}), world);
  if (scenario.failure == "fault") embedding(full({1}, 7, DType::i64), zeros({3, 2}));
}

/// Another group of the same ranks.
dist::Group same_ranks(const dist::Group& world) {
  return world.split(std::vector<int>(static_cast<std::size_t>(world.size())));
}

/// Calls backward, which fails, and again.
void retry(const nn::Sequential& net, const Tensor& loss) {
  const Tensor weight = net.parameters()[0];
  const int hook = weight.register_hook([](const Tensor&) -> Tensor { throw ValueError("stop"); });
  try {
    loss.backward({}, true);
  } catch (const ValueError&) {}
  weight.remove_hook(hook);
  loss.backward();
}

void train(const Scenario& scenario) {
  const dist::Group world = dist::init(timeout);
  const DefaultDevice here(scenario.is_on_gpu ? Device::cuda(dist::local_rank() % cuda::device_count()) : Device());
  const dist::Group metrics = same_ranks(world), others = same_ranks(world);
  nn::Sequential net(nn::Linear(4, 3));
  const dist::DataParallel parallel(net, world);
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  for (int step = 0; step < steps; ++step) {
    const bool fails = world.rank() == scenario.rank && step == scenario.step;
    const auto fails_by = [&](const char* failure) { return fails && scenario.failure == failure; };
    if (fails_by("leaves")) return;
    if (fails) fail_as(scenario, world);
    Tensor metric = fails_by("shape") ? zeros({2, 3}) : zeros({3, 2});
    dist::all_gather(metric.set_requires_grad(fails_by("grad")), fails_by("group") ? others : metrics);
    const Tensor loss = sum(net(randn({2, 4})));
    fails_by("retry") ? retry(net, loss) : loss.backward();
    sgd.step();
    sgd.zero_grad();
    synchronize(default_device());
    if (world.rank() > 0) continue;
    StateDict state;
    state.add("model", {net.state_dict()});
    state.numbers["steps"] = step + 1;
    save_checkpoint(scenario.folder + "/run.ckpt", state);
  }
  dist::barrier(world);  // a GPU's fault in the last step is found after another rank's last exchange
}

}  // namespace

int main(int argc, char** argv) {
  const Scenario scenario{argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argc > 5};
  return dist::run([&] {
    std::string end = "done";
    const auto write = [&] {
      const std::string file = scenario.folder + "/rank" + std::to_string(dist::init().rank());
      std::ofstream(file + ".part") << end;
      std::filesystem::rename(file + ".part", file);  // it appears whole
    };
    try {
      train(scenario);
    } catch (const std::exception& e) {
      end = e.what();
      write();
      throw;
    }
    write();
  });
}
