#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bytetape/onnx/save.h"

namespace bytetape::test {

/// A function that is exported, and compared with onnxruntime on fresh inputs.
struct ExportCase {
  std::string name;
  std::shared_ptr<nn::Module> net;
  onnx::Function function;
  std::function<NamedTensors(std::int64_t batch)> inputs;  ///< fresh random inputs
  onnx::SaveOptions options = {};
  std::string refusal = {};     ///< words of the message if the export is refused; else empty
  bool may_be_refused = false;  ///< whether the export may depend on the batch size in a way that is refused
};

/// A case of a module of one input, f32 (batch, shape...).
ExportCase module_case(std::string name, std::shared_ptr<nn::Module> net, const Shape& shape);
template <class M>
ExportCase layer_case(std::string name, M net, const Shape& shape) {
  return module_case(std::move(name), std::make_shared<M>(std::move(net)), shape);
}

/// The ops of docs/ops.md.
std::vector<std::string> documented_ops();
/// Why the function of a row of the op list is not exported: words of the message. Empty if it is exported.
std::string refusal_of_row(const std::string& row);

/// \name The cases, by what they export
/// @{
std::vector<ExportCase> layer_cases();
std::vector<ExportCase> model_cases();
std::vector<ExportCase> op_cases();
std::vector<ExportCase> all_cases();
/// @}

}  // namespace bytetape::test
