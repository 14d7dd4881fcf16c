#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/predict.h"
#include "bytetape/nn/fit.h"

namespace bytetape::detail {

/// The model that memory options were applied to.
struct SeenModel {
  std::vector<std::string> modules;  // paths, in the model's order
  int models = 0;
};

}  // namespace bytetape::detail

namespace bytetape::nn {

using Predict = std::function<memory::Prediction(const MemoryOptions&, std::size_t limit)>;

/// Finds memory options with which a program fits into `limit` bytes. See fit().
Fit search(std::size_t limit, const FitOptions& options, DeviceType type, bool has_pinned, const Predict& predict);

}  // namespace bytetape::nn
