#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/predict.h"

namespace bytetape::test {

/// A program on default_device(), as memory::predict() takes them: build() makes what it has before its first step, and
/// gives what takes one.
struct PredictCase {
  std::string name;
  std::function<std::function<void()>()> build;
  bool settles = true;
};

/// The models of the examples in training and in evaluation, and each optimizer.
std::vector<PredictCase> model_cases();
/// What training loops do besides.
std::vector<PredictCase> loop_cases();
/// Both.
const std::vector<PredictCase>& predict_cases();

/// Predicts the program's memory, then runs as many steps of it on the device under the same limit, and expects the
/// same events and peaks. Gives the prediction.
memory::Prediction expect_as_predicted(const PredictCase& program, Device device,
                                       const memory::PredictOptions& options = {});

}  // namespace bytetape::test
