#pragma once
#include <string>

#include "examples/command_line.h"
#include "examples/picture/canvas.h"

namespace bytetape::examples {

/// Images u8 (n, h, w) or (n, c, h, w) and labels, to train and to test on.
struct Splits {
  std::string name;  // as it is shown
  data::Batch training, testing;
};

/// How many images there are to train and to test on.
struct ImageCounts {
  std::int64_t training, testing;
};

/// An example: networks that are trained on one data set.
struct Example {
  std::string name, description;
  OptionTexts texts;
  Options defaults;
  Shape image;  // (c, h, w)
  data::Normalize normalize;
  Objective objective;
  Splits (*load)(const Options& o);
  ImageCounts images;  // of the whole data set, for predictions
  nn::Sequential (*make_model)(const Options& o);
  Recipe (*make_recipe)(nn::Module& model, const Options& o);
  /// What the trained model makes of the test images, for where the options ask for a picture.
  Canvas (*draw)(nn::Module& model, const data::ResidentImages& testing) = nullptr;
};

/// All of an example's main(): reads the command line, trains on the device that it names with live progress, or
/// predicts the memory there, prints and writes what came of it, and says on stderr what went wrong. Gives the exit
/// status: 128 + the signal's number where training was interrupted.
int run_example(const Example& example, int argc, char** argv);

}  // namespace bytetape::examples
