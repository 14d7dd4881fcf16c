#pragma once
#include <string>
#include <vector>

#include "examples/program.h"

namespace bytetape::examples {

/// The data of a training run, on its device.
struct TrainingData {
  const data::ResidentDataset &training, &testing;
};

/// Measures the time of a step without and with each piece of advice, with fresh models that are trained on `data`: of
/// the memory options in `savings`, and of the checkpoints in `advice`, whose sentences about `log` then have these
/// times. Prints that it does, because it takes a while.
void time_advice(std::vector<std::string>& advice, std::vector<nn::Saving>& savings, const memory::Log& log,
                 const Example& example, const Options& o, const TrainingData& data);

}  // namespace bytetape::examples
