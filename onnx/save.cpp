#include "bytetape/onnx/save.h"

#include <algorithm>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/write_file.h"
#include "bytetape/onnx/export_graph.h"
#include "bytetape/onnx/model_file.h"

namespace bytetape::onnx {
namespace {

/// Sets evaluation mode, and restores the mode of each module at the end.
class Evaluation {
 public:
  explicit Evaluation(nn::Module& net) {
    for (const auto& [path, module] : net.named_modules()) modes_.emplace_back(module, module->is_training());
    net.eval();
  }
  // A module comes before its children, so that train(), which reaches them too, is corrected by their own.
  ~Evaluation() {
    for (const auto& [module, is_training] : modes_) module->train(is_training);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;
};

void check_inputs(const NamedTensors& inputs, const SaveOptions& options) {
  check<ValueError>(!inputs.empty(), "onnx::save: expected at least one input");
  std::vector<std::string> names;
  for (const auto& [name, x] : inputs) {
    names.push_back(name);
    check<ValueError>(x.defined(), "onnx::save: the input '", name, "' is undefined");
    check<DeviceError>(!x.device().is_meta, "onnx::save: the input '", name, "' has no data: ", describe(x));
    if (!options.dynamic_batch) continue;
    check<ValueError>(options.batch_dim >= 0 && options.batch_dim < x.rank() && x.size(options.batch_dim) > 0,
                      "onnx::save: the input '", name, "' has no batch in dim ", options.batch_dim, ": ", describe(x));
    check<ValueError>(x.size(options.batch_dim) == inputs[0].second.size(options.batch_dim), "onnx::save: the inputs '",
                      inputs[0].first, "' and '", name, "' have different batch sizes: ", describe(inputs[0].second),
                      " and ", describe(x));
  }
  check_names(names, inputs.size(), "inputs");
}

/// Returns the parameters and buffers of a module.
NamedTensors constants_of(const nn::Module& net) {
  NamedTensors all = net.named_parameters();
  for (auto& buffer : net.named_buffers()) all.push_back(std::move(buffer));
  for (const auto& [name, x] : all)
    check<DeviceError>(!x.defined() || !x.device().is_meta, "onnx::save: '", name, "' has no data: ", describe(x));
  return all;
}

/// Returns copies of the inputs with `batch` slices in the batch dim, the first ones repeated.
NamedTensors with_batch(const NamedTensors& inputs, std::int64_t batch, std::int64_t dim) {
  NamedTensors all;
  for (const auto& [name, x] : inputs) {
    std::vector<Tensor> slices;
    for (std::int64_t i = 0; i < batch; ++i) slices.push_back(narrow(x, dim, i % x.size(dim), 1));
    all.emplace_back(name, cat(slices, dim));
  }
  return all;
}

/// Returns the trace of a batch that is not the example's.
/// Throws NotImplemented if the function cannot run on it.
Trace trace_of_batch(const Function& function, const NamedTensors& inputs, const NamedTensors& constants,
                     std::int64_t batch, std::int64_t dim) {
  if (inputs[0].second.size(dim) == batch) return trace(function, with_batch(inputs, batch, dim), constants);
  try {
    return trace(function, with_batch(inputs, batch, dim), constants);
  } catch (const Error& error) {
    fail<NotImplemented>("onnx::save: the function fails for a batch of ", batch, ": ", error.what(),
                         "; set dynamic_batch to false if it is for one batch size");
  }
}

NamedTensors copies_of(const NamedTensors& inputs) {
  NamedTensors all;
  for (const auto& [name, x] : inputs) all.emplace_back(name, clone(x));
  return all;
}

}  // namespace

Graph export_graph(nn::Module& net, const Function& function, const NamedTensors& inputs, const SaveOptions& options) {
  check_inputs(inputs, options);
  const NamedTensors constants = constants_of(net);
  const Evaluation evaluation(net);
  const NoGrad no_grad;
  const Autocast off(DType::f32);
  if (!options.dynamic_batch) {
    Trace first = trace(function, copies_of(inputs), constants), second = trace(function, copies_of(inputs), constants);
    return graph_of(first, second, inputs, 1, options);
  }
  // Ops see a size of 1 as a dim that broadcasts, so neither batch has it.
  const std::int64_t given = inputs[0].second.size(options.batch_dim), fewer = std::max<std::int64_t>(given, 2);
  const Size batch{fewer, fewer + 1};
  Trace first = trace_of_batch(function, inputs, constants, batch.first, options.batch_dim);
  Trace second = trace_of_batch(function, inputs, constants, batch.second, options.batch_dim);
  return graph_of(first, second, inputs, batch, options);
}

void save(const std::string& path, nn::Module& net, const Function& function, const NamedTensors& inputs,
          const SaveOptions& options) {
  check_writable(path, "an ONNX model");
  write_model(path, export_graph(net, function, inputs, options), options.external_data);
}

void save(const std::string& path, nn::Module& net, const Tensor& example, const SaveOptions& options) {
  const auto forward = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{net(x[0])}; };
  check<ValueError>(options.input_names.size() <= 1, "onnx::save: expected one name of an input, got ",
                    options.input_names.size());
  save(path, net, forward, {{options.input_names.empty() ? "input" : options.input_names[0], example}}, options);
}

}  // namespace bytetape::onnx
