// Trains on several ranks, of which one fails in a step. Each rank writes how it ended to a file.
// usage: failing_ranks FOLDER FAILURE RANK STEP
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

#include "bytetape/bytetape.h"

using namespace bytetape;

namespace {

constexpr int steps = 6;

struct Scenario {
  std::string folder, failure;
  int rank, step;
};

void fail_as(const Scenario& scenario, const dist::Group& world) {
  if (scenario.failure == "throws") throw ValueError("the disk is full");
  if (scenario.failure == "dies") std::raise(SIGKILL);
  if (scenario.failure == "stops") std::raise(SIGSTOP);
  if (scenario.failure == "other") dist::broadcast(zeros({2}), world);
  if (scenario.failure == "shape") dist::all_reduce(zeros({3}), world);
  if (scenario.failure == "fault") embedding(full({1}, 7, DType::i64), zeros({3, 2}));
}

void train(const Scenario& scenario) {
  const dist::Group world = dist::init(std::chrono::seconds(3));
  nn::Sequential net(nn::Linear(4, 3));
  const dist::DataParallel parallel(net, world);
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  for (int step = 0; step < steps; ++step) {
    if (world.rank() == scenario.rank && step == scenario.step) {
      if (scenario.failure == "leaves") return;
      fail_as(scenario, world);
    }
    sum(net(randn({2, 4}))).backward();
    sgd.step();
    sgd.zero_grad();
    if (world.rank() > 0) continue;
    StateDict state;
    state.add("model", {net.state_dict()});
    state.numbers["steps"] = step + 1;
    save_checkpoint(scenario.folder + "/run.ckpt", state);
  }
}

}  // namespace

int main(int, char** argv) {
  const Scenario scenario{argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4])};
  return dist::run([&] {
    std::string end = "done";
    const auto write = [&] {
      std::ofstream(scenario.folder + "/rank" + std::to_string(dist::init(std::chrono::seconds(3)).rank())) << end;
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
