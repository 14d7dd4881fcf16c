#pragma once
#include <string>

#include "examples/command_line.h"
#include "examples/picture/canvas.h"

namespace bytetape::examples {

/// Training and test images u8 (n, h, w) or (n, c, h, w), with labels.
struct Splits {
  std::string name;  // name in outputs
  data::Batch training, testing;
};

/// The numbers of training and test images.
struct ImageCounts {
  std::int64_t training, testing;
};

/// An example program: networks that are trained on one dataset.
struct Example {
  std::string name, description;
  OptionTexts texts;
  Options defaults;
  Shape image;  // (c, h, w)
  data::Normalize normalize;
  Objective objective;
  Splits (*load)(const Options& o);
  ImageCounts images;  // size of the dataset, for predictions
  nn::Sequential (*make_model)(const Options& o);
  Recipe (*make_recipe)(nn::Module& model, const Options& o);
  /// Draws the trained model's outputs for test images, if the options ask for a picture.
  Canvas (*draw)(nn::Module& model, const data::ResidentImages& testing) = nullptr;
};

/// Runs an example: parses the command line, trains with live progress or predicts memory, and reports results and
/// errors. Results are printed and written to files, errors are printed to stderr. Returns the exit status, which is
/// 128 + the signal's number if training was interrupted.
int run_example(const Example& example, int argc, char** argv);

}  // namespace bytetape::examples
