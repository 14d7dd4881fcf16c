#include "examples/mnist_splits.h"

#include <fmt/format.h>

namespace bytetape::examples {

static Splits splits_of(const data::Mnist& training, const data::Mnist& testing) {
  return {training.name, {training.images, training.labels}, {testing.images, testing.labels}};
}

Splits load_mnist_splits(const Options& o) {
  if (const auto dir = data::find_mnist(o.data_folder()))
    return splits_of(data::load_mnist(*dir, data::Split::train), data::load_mnist(*dir, data::Split::test));
  std::string folders;
  for (const auto& folder : data::mnist_folders()) folders += (folders.empty() ? "" : ", ") + folder.string();
  fmt::print("MNIST's four files are not in {}: training on generated digits instead\n", folders);
  return splits_of(data::generated_digits(mnist_images.training, 1), data::generated_digits(mnist_images.testing, 2));
}

}  // namespace bytetape::examples
