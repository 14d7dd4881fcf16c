// Trains an MLP or a convolution network on MNIST and says where the memory went.
#include <fmt/format.h>

#include "examples/mnist/models.h"
#include "examples/program.h"

namespace {

using namespace bytetape;
using namespace bytetape::examples;

Splits splits_of(const data::Mnist& training, const data::Mnist& testing) {
  return {training.name, {training.images, training.labels}, {testing.images, testing.labels}};
}

/// Real MNIST where it is found, else drawn.
Splits load(const Options& o) {
  if (const auto dir = data::find_mnist(o.data_folder()))
    return splits_of(data::load_mnist(*dir, data::Split::train), data::load_mnist(*dir, data::Split::test));
  std::string folders;
  for (const auto& folder : data::mnist_folders()) folders += (folders.empty() ? "" : ", ") + folder.string();
  fmt::print("MNIST's four files are not in {}: training on generated digits instead\n", folders);
  return splits_of(data::generated_digits(60000, 1), data::generated_digits(10000, 2));
}

nn::Sequential make_model(const Options& o) { return o.model == "mlp" ? mnist_mlp() : mnist_cnn(); }

Recipe make_recipe(nn::Module& model, const Options& o) {
  return {std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = o.lr}), falling};
}

Options defaults() {
  Options o;
  o.model = "cnn";
  o.lr = 2e-3;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(
      {.name = "mnist",
       .description = "Trains on MNIST and says where the memory went.",
       .texts = {.models = {"cnn", "mlp"},
                 .data = "folder with the four MNIST files; default: $BYTETAPE_DATA, ~/.cache/bytetape/mnist, else "
                         "generated digits",
                 .lr = "Adam's first learning rate; falls linearly to 0"},
       .defaults = defaults(),
       .image = {1, 28, 28},
       .normalize = data::mnist_normalize,
       .load = load,
       .make_model = make_model,
       .make_recipe = make_recipe},
      argc, argv);
}
