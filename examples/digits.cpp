// The smallest training program: a network, its loss and a memory report.
// [digits]
#include <bytetape/bytetape.h>

#include <iostream>

using namespace bytetape;

int main() {
  const memory::Recording recording("digits.memlog");
  const data::Mnist digits = data::generated_digits(8192, /*seed=*/0);
  const data::TensorDataset dataset(digits.images, digits.labels, data::mnist_normalize);
  data::DataLoader loader(dataset, {.batch_size = 1024, .shuffle = true});
  nn::Sequential net{nn::Conv2d(1, 16, 3), nn::ReLU(),    nn::Conv2d(16, 16, 3),       nn::ReLU(),
                     nn::MaxPool2d(2),     nn::Flatten(), nn::Linear(16 * 12 * 12, 10)};
  optim::Adam adam(net.parameters(), {.lr = 0.002});
  for (const auto& [x, y] : loader) {
    const memory::Step step;  // marks one training step on the memory timeline
    adam.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    adam.step();
    std::cout << "loss " << loss.item<float>() << '\n';
  }
  std::cout << memory::summarize(memory::snapshot());
  memory::write_report("digits-memory.html");  // open it in a browser
}
// [digits]
