// Trains an autoencoder on MNIST, which encodes each digit as 32 numbers, and reports its memory.
#include "examples/autoencoder/models.h"
#include "examples/autoencoder/reconstructions.h"
#include "examples/mnist_splits.h"

namespace {

using namespace bytetape;
using namespace bytetape::examples;

std::unique_ptr<nn::Module> make_model(const Options&) { return std::make_unique<nn::Sequential>(autoencoder()); }

Recipe make_recipe(nn::Module& model, const Options& o) {
  return {std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = o.lr}), falling};
}

Options defaults() {
  Options o;
  o.model = "convolutional";
  o.batch_size = 128;
  o.lr = 2e-3;
  o.until = 0;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example({.name = "autoencoder",
                      .description = "Trains an autoencoder on MNIST and reports the memory of training.",
                      .texts = {.models = {"convolutional"},
                                .data = mnist_data,
                                .lr = "Adam's first learning rate, which falls linearly to 0",
                                .until = "stop after the epoch that reaches this error on the test images",
                                .picture_option = "--reconstructions",
                                .picture = "write a picture (PNG) of digits and their reconstructions to this file"},
                      .defaults = defaults(),
                      .data = image_data({1, 28, 28}, {}),  // pixels stay 0 to 1
                      .objective = reconstruction(),
                      .load = load_mnist_splits,
                      .counts = mnist_images,
                      .make_model = make_model,
                      .make_recipe = make_recipe,
                      .draw = draw_reconstructions},
                     argc, argv);
}
