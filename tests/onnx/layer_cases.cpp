#include "bytetape/bytetape.h"
#include "tests/onnx/cases.h"
#include "tests/support/random.h"

namespace bytetape::test {

ExportCase module_case(std::string name, std::shared_ptr<nn::Module> net, const Shape& shape) {
  const onnx::Function forward = [net](const std::vector<Tensor>& x) { return std::vector<Tensor>{(*net)(x[0])}; };
  const auto inputs = [shape](std::int64_t batch) {
    Shape full = shape;
    full.insert(0, batch);
    return NamedTensors{{"input", random_tensor(full, DType::f32)}};
  };
  return {std::move(name), std::move(net), forward, inputs};
}

std::vector<ExportCase> layer_cases() {
  std::vector<ExportCase> all;
  all.push_back(layer_case("Linear", nn::Linear(5, 3), {5}));
  all.push_back(layer_case("LinearOfRows", nn::Linear(5, 3, false), {4, 5}));
  all.push_back(layer_case(
      "Mlp", nn::Sequential(nn::Flatten(), nn::Linear(12, 16), nn::ReLU(), nn::Dropout(0.5), nn::Linear(16, 3)),
      {3, 4}));
  return all;
}

std::vector<ExportCase> model_cases() { return {}; }
std::vector<ExportCase> op_cases() { return {}; }

std::vector<ExportCase> all_cases() {
  std::vector<ExportCase> all = layer_cases();
  for (auto* more : {model_cases, op_cases})
    for (ExportCase& c : more()) all.push_back(std::move(c));
  return all;
}

}  // namespace bytetape::test
