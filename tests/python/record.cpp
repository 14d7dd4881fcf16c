// record FILE          trains three steps of a small network, and records them in FILE
// record FILE \xff     the same; the names of the program and of a module are not UTF-8
// record FILE DEVICE   predicts them for a device such as cuda, records them, and prints the peaks in bytes
#include <iostream>
#include <string>

#include "bytetape/bytetape.h"

using namespace bytetape;

nn::Sequential net_with(const std::string& name) {
  nn::Sequential net;
  net.push_back(name, nn::Linear(64, 128)).push_back("relu", nn::ReLU()).push_back("out", nn::Linear(128, 10));
  return net;
}

struct Training {
  explicit Training(const std::string& name = "hidden") : net(net_with(name)) {}
  nn::Sequential net;
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
  const bool is_named_badly = argc == 3 && std::string(argv[2]) == "\xff";
  if (argc == 3 && !is_named_badly) {
    const auto p = memory::predict(Device::parse(argv[2]), [] { return Training(); }, {.recording = argv[1]});
    std::cout << p.peak_allocated() << ' ' << p.peak_reserved() << std::endl;
    return 0;
  }
  Training training(is_named_badly ? "hidden\xff" : "hidden");
  memory::Recording recording(argv[1], is_named_badly ? "record\xff" : "record");
  for (int i = 0; i < 3; ++i) training();
  recording.finish();
}
