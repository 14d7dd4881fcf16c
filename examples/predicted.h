#pragma once
#include <string>
#include <vector>

#include "examples/program.h"

namespace bytetape::examples {

/// Predicts the memory of training with these options, on their device, which need not exist.
/// Covers the example's setup, an epoch, its test, and steps until they repeat. The last steps of a long epoch stand
/// for all of it. The prediction is recorded if the options ask for it.
memory::Prediction predict(const Example& example, const Options& o, const ExampleCounts& counts);

/// Predicts how much each memory option would save. Ignores the memory limit.
std::vector<nn::Saving> savings(const Example& example, const Options& o, const ExampleCounts& counts);

/// Describes a saving, whether it is enough for the limit, and the switch for it: "Recompute: peak ...\n--recompute".
std::string advice_text(const nn::Saving& s, const Options& o);

/// Finds memory options with which training fits into the memory limit.
nn::Fit fit(const Example& example, const Options& o, const ExampleCounts& counts);

/// Describes the largest batch size that fits: "--batch-size 96 is the largest that fits into 512 MiB", or that none or
/// any fits. The limit is --memory-limit, or the memory of the device.
std::string largest_batch(const Example& example, const Options& o, const ExampleCounts& counts);

}  // namespace bytetape::examples
