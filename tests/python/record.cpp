// record FILE          trains three steps of a small network, and records them in FILE
// record FILE DEVICE   predicts them for a device such as cuda, records them, and prints the peaks in bytes
#include <iostream>

#include "bytetape/bytetape.h"

using namespace bytetape;

struct Training {
  nn::Sequential net{nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 10)};
  optim::SGD sgd{net.parameters(), {.lr = 0.1, .momentum = 0.9}};

  void operator()() {
    const memory::Step step;
    const Tensor x = rand({32, 64});
    sgd.zero_grad();
    cross_entropy(net(x), randint(0, 10, {32})).backward();
    sgd.step();
  }
};

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  manual_seed(0);
  if (argc == 3) {
    const auto p = memory::predict(Device::parse(argv[2]), [] { return Training(); }, {.recording = argv[1]});
    std::cout << p.peak_allocated() << ' ' << p.peak_reserved() << std::endl;
    return 0;
  }
  Training training;
  memory::Recording recording(argv[1], "record");
  for (int i = 0; i < 3; ++i) training();
  recording.finish();
}
