#include "examples/mnist_splits.h"

#include <fmt/format.h>

#include <functional>

namespace bytetape::examples {

// Loads the training set first, as predictions do. In one call, the order of the arguments would be unspecified.
static Splits splits_of(const std::function<data::Mnist(data::Split)>& load) {
  const data::Mnist training = load(data::Split::train), testing = load(data::Split::test);
  return {training.name, {training.images, training.labels}, {testing.images, testing.labels}};
}

Splits load_mnist_splits(const Options& o) {
  if (const auto dir = data::find_mnist(o.data_folder()))
    return splits_of([&](data::Split split) { return data::load_mnist(*dir, split); });
  std::string folders;
  for (const auto& folder : data::mnist_folders()) folders += (folders.empty() ? "" : ", ") + folder.string();
  fmt::print("MNIST's four files are not in {}: training on generated digits instead\n", folders);
  return splits_of([](data::Split split) {
    const bool trains = split == data::Split::train;
    return data::generated_digits(trains ? mnist_images.training : mnist_images.testing, trains ? 1 : 2);
  });
}

}  // namespace bytetape::examples
