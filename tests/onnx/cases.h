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
};

/// A case of a module of one input, f32 (batch, shape...).
ExportCase module_case(std::string name, std::shared_ptr<nn::Module> net, const Shape& shape);
template <class M>
ExportCase layer_case(std::string name, M net, const Shape& shape) {
  return module_case(std::move(name), std::make_shared<M>(std::move(net)), shape);
}

/// \name The cases, by what they export
/// @{
std::vector<ExportCase> layer_cases();
std::vector<ExportCase> model_cases();
std::vector<ExportCase> op_cases();
std::vector<ExportCase> all_cases();
/// @}

}  // namespace bytetape::test
