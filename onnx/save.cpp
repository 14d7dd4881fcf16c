#include "bytetape/onnx/save.h"

#include <algorithm>
#include <array>

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
    if (!has_batch(name, options)) continue;
    const auto& [other_name, other] = first_batched(inputs, options);
    check<ValueError>(options.batch_dim >= 0 && options.batch_dim < x.rank() && x.size(options.batch_dim) > 0,
                      "onnx::save: the input '", name, "' has no batch in dim ", options.batch_dim, ": ", describe(x));
    check<ValueError>(x.size(options.batch_dim) == other.size(options.batch_dim), "onnx::save: the inputs '",
                      other_name, "' and '", name, "' have different batch sizes: ", describe(other), " and ",
                      describe(x));
  }
  check_names(names, inputs.size(), "inputs");
  const auto without_batch = [&](const std::string& name) { return !has_batch(name, options); };
  check<ValueError>(!options.dynamic_batch || !std::all_of(names.begin(), names.end(), without_batch),
                    "onnx::save: all inputs are unbatched: set dynamic_batch to false");
  for (const std::string& name : options.unbatched_inputs)
    check<ValueError>(std::find(names.begin(), names.end(), name) != names.end(), "onnx::save: the unbatched input '",
                      name, "' is none of the inputs");
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
NamedTensors with_batch(const NamedTensors& inputs, std::int64_t batch, const SaveOptions& options) {
  const std::int64_t dim = options.batch_dim;
  NamedTensors all;
  for (const auto& [name, x] : inputs) {
    if (!has_batch(name, options)) {
      all.emplace_back(name, clone(x));
      continue;
    }
    std::vector<Tensor> slices;
    for (std::int64_t i = 0; i < batch; ++i) slices.push_back(narrow(x, dim, i % x.size(dim), 1));
    all.emplace_back(name, cat(slices, dim));
  }
  return all;
}

/// Returns the trace of a batch that is not the example's.
/// Throws NotImplemented if the function cannot run on it.
Trace trace_of_batch(const Function& function, const NamedTensors& inputs, const NamedTensors& constants,
                     std::int64_t batch, const SaveOptions& options) {
  const bool is_examples = first_batched(inputs, options).second.size(options.batch_dim) == batch;
  if (is_examples) return trace(function, with_batch(inputs, batch, options), constants);
  try {
    return trace(function, with_batch(inputs, batch, options), constants);
  } catch (const Error& error) {
    fail<NotImplemented>("onnx::save: the function fails for a batch of ", batch, ": ", error.what(),
                         "; set dynamic_batch to false if it is for one batch size");
  }
}

/// Returns the batch sizes to trace. Ops see a size of 1 as a dim that broadcasts, so none is 1. The first two are far
/// apart, so that sizes such as batch / 2 differ. The last one is small, for sizes such as max(batch, 8).
std::array<std::int64_t, 3> batch_sizes(std::int64_t given) {
  const std::int64_t first = std::max<std::int64_t>(given, 2);
  return {first, 2 * first + 1, first > 2 ? 2 : 3};
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
    return graph_of(std::move(first), std::move(second), inputs, 1, options);
  }
  const std::int64_t given = first_batched(inputs, options).second.size(options.batch_dim);
  const std::array<std::int64_t, 3> sizes = batch_sizes(given);
  const auto traced = [&](std::int64_t batch) { return trace_of_batch(function, inputs, constants, batch, options); };
  const Trace first = traced(sizes[0]);
  Graph graph = graph_of(first, traced(sizes[1]), inputs, {sizes[0], sizes[1]}, options);
  const Graph again = graph_of(first, traced(sizes[2]), inputs, {sizes[0], sizes[2]}, options);
  const std::string difference = graph.difference(again);
  check<NotImplemented>(difference.empty(), "onnx::save: sizes or constants in '", difference,
                        "' depend on the batch size, but are no multiples of it; set dynamic_batch to false");
  return graph;
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
