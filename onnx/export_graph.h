#pragma once
#include "bytetape/onnx/graph.h"
#include "bytetape/onnx/trace.h"

namespace bytetape::onnx {

/// Throws ValueError unless there are `count` names, all different. `what` is what they name.
void check_names(const std::vector<std::string>& names, std::size_t count, const char* what);

/// Whether the input with this name has a batch dim.
bool has_batch(const std::string& name, const SaveOptions& options);
/// Returns the first input that has one; the first input if none has.
const std::pair<std::string, Tensor>& first_batched(const NamedTensors& inputs, const SaveOptions& options);

/// Returns the graph of two traces with batches of `batch` slices, which may be the same.
/// Throws NotImplemented if the ops differ, or if one of them cannot be exported.
Graph graph_of(Trace first, Trace second, const NamedTensors& inputs, Size batch, const SaveOptions& options);

/// Returns the graph that save() writes. Throws as save() does, but not FileError.
Graph export_graph(nn::Module& net, const Function& function, const NamedTensors& inputs, const SaveOptions& options);

}  // namespace bytetape::onnx
