// Trains a small model and prints a summary of its memory.
// [quickstart]
#include <bytetape/bytetape.h>

#include <iomanip>
#include <iostream>

using namespace bytetape;

struct Net : nn::Module {
  nn::Linear fc1{784, 128}, fc2{128, 10};
  Net() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(flatten(x, 1)))); }
};

int main(int argc, char** argv) try {
  share_cores(argv);  // idle threads sleep soon, so that other programs slow training little
  const DefaultDevice here(Device::parse(argc > 1 ? argv[1] : "cpu"));  // meta predicts the memory
  const data::Mnist digits = data::generated_digits(8192, /*seed=*/0);
  const data::TensorDataset dataset(digits.images, digits.labels, data::mnist_normalize);
  data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true});
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.02, .momentum = 0.9});
  for (const data::Batch& batch : loader) {
    const memory::Step step;  // marks a training step on the memory timeline
    sgd.zero_grad();
    const Tensor loss = cross_entropy(net(batch.x), batch.y);
    loss.backward();
    sgd.step();
    if (loss.device().is_meta) continue;  // a meta tensor has no value to print
    std::cout << "\rloss " << std::fixed << std::setprecision(4) << loss.item<float>() << std::flush;
  }
  if (!default_device().is_meta) std::cout << "\n\n";
  std::cout << memory::summarize(memory::snapshot(default_device()));
} catch (const Error& e) {
  std::cerr << "quickstart: " << e.what() << '\n';
  return 1;
}
// [quickstart]
