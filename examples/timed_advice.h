#pragma once
#include <string>
#include <vector>

#include "examples/program.h"

namespace bytetape::examples {

/// The data of a training run, on its device.
struct TrainingData {
  const data::ResidentDataset &training, &testing;
};

/// Measures the time of a step without and with each checkpoint in `advice` on `log`, and each of `savings`. Writes the
/// times into both. Fresh models are trained on `data`, without the memory limit, because the trained model is still
/// there. Prints a line first, because it takes a while.
void time_advice(std::vector<std::string>& advice, std::vector<nn::Saving>& savings, const memory::Log& log,
                 const Example& example, const Options& o, const TrainingData& data);

}  // namespace bytetape::examples
