#pragma once
#include <functional>
#include <memory>
#include <string>

#include "examples/command_line.h"
#include "examples/picture/canvas.h"

namespace bytetape::examples {

/// Training and test data, such as images u8 (n, h, w) or (n, c, h, w) with labels.
struct Splits {
  std::string name;  // name in outputs
  data::Batch training, testing;
};

/// The numbers of training and test examples.
struct ExampleCounts {
  std::int64_t training, testing;
};

/// A kind of data: what examples are called, and how splits are kept on a device.
struct DataKind {
  Unit unit;
  /// Returns uninitialised data of n examples on the CPU's meta device, for predictions.
  std::function<data::Batch(std::int64_t n)> allocate;
  /// Returns the number of examples in a split.
  std::function<std::int64_t(const data::Batch& split)> count;
  /// Copies a split to the default device.
  std::function<std::unique_ptr<data::ResidentDataset>(const data::Batch& split)> make_resident;
};

/// Images of this shape, (c, h, w), with labels.
DataKind image_data(const Shape& image, const data::Normalize& normalize);

/// An example program: networks that are trained on one dataset.
struct Example {
  std::string name, description;
  OptionTexts texts;
  Options defaults;
  DataKind data;
  Objective objective;
  std::function<Splits(const Options& o)> load;
  ExampleCounts counts{};  // size of the dataset, for predictions
  std::function<std::unique_ptr<nn::Module>(const Options& o)> make_model;
  Recipe (*make_recipe)(nn::Module& model, const Options& o);
  /// Draws the trained model's outputs for test images, if the options ask for a picture.
  Canvas (*draw)(nn::Module& model, const data::ResidentDataset& testing) = nullptr;
  /// Prints outputs of the trained model.
  std::function<void(nn::Module& model, const Options& o)> show = {};
  /// Runs in place of training. apply_options() may set it.
  std::function<void(const Options& o)> run_instead = {};
  /// Adds options that other examples do not have.
  std::function<void(CLI::App& app)> add_options = {};
  /// Applies parsed options to the example and to the options that depend on them.
  std::function<void(Example& example, Options& o)> apply_options = {};
};

/// Runs an example: parses the command line, trains with live progress or predicts memory, and reports results and
/// errors. Results are printed and written to files, errors are printed to stderr. Returns the exit status, which is
/// 128 + the signal's number if training was interrupted.
int run_example(Example example, int argc, char** argv);

}  // namespace bytetape::examples
