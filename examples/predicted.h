#pragma once
#include <string>
#include <vector>

#include "examples/program.h"

namespace bytetape::examples {

/// What training as the options say does to the memory of their device, which need not be there: all that the example
/// makes, an epoch, its test, and steps until they settle. Of a long epoch the last few steps stand for all. Recorded
/// where the options say.
memory::Prediction predict(const Example& example, const Options& o, const ImageCounts& images);

/// What each memory option would save, in words; the options' limit does not count.
std::vector<std::string> savings(const Example& example, const Options& o, const ImageCounts& images);

/// What makes training fit into the options' limit.
nn::Fit fit(const Example& example, const Options& o, const ImageCounts& images);

/// "--batch-size 96 is the largest that fits into 512 MiB", or that none does, or any: the options' limit, or what the
/// device has.
std::string largest_batch(const Example& example, const Options& o, const ImageCounts& images);

}  // namespace bytetape::examples
