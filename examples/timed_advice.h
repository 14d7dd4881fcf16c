#pragma once
#include <vector>

#include "examples/program.h"

namespace bytetape::examples {

/// The data of a training run, on its device.
struct TrainingData {
  const data::ResidentDataset &training, &testing;
};

/// Measures the time of a step without and with each saving, with fresh models that are trained on `data`.
/// Prints that it does, because it takes a while.
void time_savings(std::vector<nn::Saving>& savings, const Example& example, const Options& o, const TrainingData& data);

}  // namespace bytetape::examples
