#pragma once
#include <string>

#include "bytetape/onnx/graph.h"

namespace bytetape::onnx {

/// Writes a graph as an ONNX model. If `external_data`, elements of constants of at least 1 KiB are in `path`.data.
/// Throws ValueError, before anything is written, if a model without external data exceeds protobuf's 2 GB.
/// Throws FileError.
void write_model(const std::string& path, const Graph& graph, bool external_data);

}  // namespace bytetape::onnx
