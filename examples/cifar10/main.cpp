// Trains a small convolution network or a ResNet-18 on CIFAR-10 and reports its memory.
#include <fmt/format.h>

#include "examples/cifar10/errors.h"
#include "examples/cifar10/models.h"
#include "examples/cifar10/race.h"
#include "examples/program.h"

namespace {

using namespace bytetape;
using namespace bytetape::examples;

Splits load(const Options& o) {
  const auto dir = data::find_cifar10(o.data_folder());
  std::string folders;
  for (const auto& folder : data::cifar10_folders()) folders += (folders.empty() ? "" : ", ") + folder.string();
  check<FileError>(dir.has_value(), "CIFAR-10's six files are not in ", folders,
                   ": get them with scripts/download_cifar10, or give their folder with --data");
  const data::Cifar10 training = data::load_cifar10(*dir, data::Split::train),
                      testing = data::load_cifar10(*dir, data::Split::test);
  return {"CIFAR-10", {training.images, training.labels}, {testing.images, testing.labels}};
}

std::unique_ptr<nn::Module> make_model(const Options& o) {
  return std::make_unique<nn::Sequential>(o.model == "resnet18" ? resnet18() : small_net());
}

Recipe make_recipe(nn::Module& model, const Options& o) {
  const optim::SGDOptions sgd{.lr = o.lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true};
  const std::int64_t crop_padding = o.model == "small" ? 2 : 4;  // 2 is better for few epochs of the small net
  return {std::make_unique<optim::SGD>(model.parameters(), sgd),
          rising_then_falling,
          {.crop_padding = crop_padding, .padding_mode = PaddingMode::reflect, .flip = 0.5}};
}

Options defaults() {
  Options o;
  o.model = "small";
  o.epochs = 6;
  o.batch_size = 128;
  o.lr = 0.1;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  Example example{
      .name = "cifar10",
      .description = "Trains on CIFAR-10 and reports the memory of training.",
      .texts = {.models = {"small", "resnet18"},
                .data = "folder with the six files of CIFAR-10's binary version; default: $BYTETAPE_DATA, "
                        "~/.cache/bytetape/cifar-10-batches-bin",
                .lr = "SGD's highest learning rate; the rate rises linearly from 0 in the first fifth, then falls to 0",
                .until = until_accuracy,
                .picture_option = "--errors",
                .picture = "write a picture (PNG) of the most confident mistakes to this file"},
      .defaults = defaults(),
      .data = image_data({3, 32, 32}, data::cifar10_normalize),
      .objective = classification(),
      .load = load,
      .counts = {50000, 10000},
      .make_model = make_model,
      .make_recipe = make_recipe,
      .draw = draw_errors};
  add_race(example);
  return run_example(std::move(example), argc, argv);
}
