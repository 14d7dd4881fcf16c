#pragma once
#include <string>

#include "bytetape/onnx/conversion.h"

namespace bytetape::onnx {

/// Returns the name of the result of an activation, "none", "relu" or "gelu_tanh", on x.
std::string activated(Conversion& c, const std::string& x, const std::string& activation, DType dtype);

}  // namespace bytetape::onnx
