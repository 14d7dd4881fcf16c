// Trains a small network with data parallelism: mpirun -n 4 build/release/examples/ranks
#include <bytetape/bytetape.h>

#include <iostream>

using namespace bytetape;

int main(int, char** argv) {
  share_cores(argv);
  // [ranks]
  return dist::run([] {
    const dist::Group world = dist::init();
    const data::Mnist digits = data::generated_digits(8192, /*seed=*/0);
    const data::ResidentImages images(digits.images, digits.labels, data::mnist_normalize);
    data::ResidentLoader loader(images, {.batch_size = 256 / world.size(),
                                         .shuffle = true,
                                         .drop_last = true,
                                         .rank = world.rank(),
                                         .world_size = world.size()});
    nn::Sequential net{nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
    const dist::DataParallel parallel(net, world);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    Tensor loss;
    for (const auto& [x, y] : loader) {
      const memory::Step step;
      sgd.zero_grad();
      loss = cross_entropy(net(x), y);
      loss.backward();  // the gradients are now the averages over the ranks
      sgd.step();
    }
    loss = dist::all_reduce(loss.detach(), world, dist::ReduceOp::average);
    const char* const ranks = world.size() == 1 ? " rank: " : " ranks: ";
    if (world.rank() == 0) std::cout << "loss on " << world.size() << ranks << loss.item<float>() << '\n';
  });
  // [ranks]
}
