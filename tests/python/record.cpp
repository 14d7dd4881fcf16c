// Trains three steps of a small network, and records them in the file that is named.
#include "bytetape/bytetape.h"

using namespace bytetape;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  manual_seed(0);
  nn::Sequential net(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 10));
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  memory::Recording recording(argv[1], "record");
  for (int i = 0; i < 3; ++i) {
    const memory::Step step;
    const Tensor x = rand({32, 64});
    sgd.zero_grad();
    cross_entropy(net(x), randint(0, 10, {32})).backward();
    sgd.step();
  }
  recording.finish();
}
