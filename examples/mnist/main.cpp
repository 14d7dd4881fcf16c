// Trains an MLP or a convolution network on MNIST and reports its memory.
#include "examples/mnist/models.h"
#include "examples/mnist_splits.h"

namespace {

using namespace bytetape;
using namespace bytetape::examples;

std::unique_ptr<nn::Module> make_model(const Options& o) {
  return std::make_unique<nn::Sequential>(o.model == "mlp" ? mnist_mlp() : mnist_cnn());
}

Recipe make_recipe(nn::Module& model, const Options& o) {
  if (o.optimizer == "sgd")
    return {std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{.lr = o.lr}), falling};
  return {std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = o.lr}), falling};
}

Options defaults() {
  Options o;
  o.model = "cnn";
  o.optimizer = "adam";
  o.lr = 2e-3;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example({.name = "mnist",
                      .description = "Trains on MNIST and reports the memory of training.",
                      .texts = {.models = {"cnn", "mlp"},
                                .optimizers = {"adam", "sgd"},
                                .data = mnist_data,
                                .lr = "first learning rate, which falls linearly to 0; SGD needs about 0.1",
                                .until = until_accuracy},
                      .defaults = defaults(),
                      .data = image_data({1, 28, 28}, data::mnist_normalize),
                      .objective = classification(),
                      .load = load_mnist_splits,
                      .counts = mnist_images,
                      .make_model = make_model,
                      .make_recipe = make_recipe},
                     argc, argv);
}
