#include "bytetape/onnx/save.h"

#include <algorithm>
#include <set>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/write_file.h"
#include "bytetape/onnx/conversion.h"
#include "bytetape/onnx/model_file.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

/// Sets evaluation mode, and restores the mode of each module at the end.
class Evaluation {
 public:
  explicit Evaluation(nn::Module& net) : net_(net) {
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
  nn::Module& net_;
  std::vector<std::pair<nn::Module*, bool>> modes_;
};

void check_names(const std::vector<std::string>& names, std::size_t count, const char* what) {
  check<ValueError>(names.size() == count, "onnx::save: expected ", count, " names of ", what, ", got ", names.size());
  std::set<std::string> seen;
  for (const std::string& name : names)
    check<ValueError>(!name.empty() && seen.insert(name).second, "onnx::save: the name '", name, "' of ", what,
                      " is empty or repeated");
}

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

void check_is_free(const std::string& name, const NamedTensors& constants) {
  const auto has_name = [&](const auto& constant) { return constant.first == name; };
  check<ValueError>(std::none_of(constants.begin(), constants.end(), has_name), "onnx::save: '", name,
                    "' is the name of a parameter or buffer, and cannot be that of an input or result");
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

NamedTensors copies_of(const NamedTensors& inputs) {
  NamedTensors all;
  for (const auto& [name, x] : inputs) all.emplace_back(name, clone(x));
  return all;
}

std::string described(const TracedOp& op) {
  const std::string module = memory::plain_path(op.module);
  return "'" + std::string(op.definition->name) + "'" + (module.empty() ? "" : " in '" + module + "'");
}

/// Throws NotImplemented unless both traces have the same ops on the same values.
void check_same_ops(const Trace& first, const Trace& second, Size batch) {
  const auto same_input = [](const Argument& a, const Argument& b) {
    return a.value == b.value && a.is_number == b.is_number;
  };
  const std::size_t count = std::min(first.ops.size(), second.ops.size());
  for (std::size_t i = 0; i < count; ++i) {
    const TracedOp &a = first.ops[i], &b = second.ops[i];
    const bool is_same = a.definition == b.definition && a.outputs == b.outputs && a.updates_base == b.updates_base &&
                         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same_input);
    check<NotImplemented>(is_same, "onnx::save: the ops that run depend on the batch size: op ", i, " is ",
                          described(a), " for a batch of ", batch.first, ", and ", described(b), " for ", batch.second,
                          ", or has other inputs; set dynamic_batch to false");
  }
  bool is_same = first.ops.size() == second.ops.size() && first.results == second.results &&
                 first.values.size() == second.values.size();
  for (std::size_t i = 0; is_same && i < first.values.size(); ++i)
    is_same = first.values[i].shape.size() == second.values[i].shape.size() &&
              first.values[i].dtype == second.values[i].dtype && first.values[i].name == second.values[i].name;
  check<NotImplemented>(is_same,
                        "onnx::save: the ops that run, or the ranks of their results, depend on the batch "
                        "size; set dynamic_batch to false");
}

/// Adds the nodes of an op.
void convert(Graph& graph, ValueNames& values, const TracedOp& first, const TracedOp& second) {
  const std::string op(first.definition->name), module = memory::plain_path(first.module);
  graph.set_prefix(module.empty() ? op : module + "/" + op);
  if (!first.refusal.empty()) throw Refusal{first.refusal};
  Conversion conversion(graph, values, first, second);
  if (first.updates_base) return put_into_base(conversion, op);
  find_converter(op)->convert(conversion);
}

/// Adds the nodes of all ops.
/// Throws NotImplemented with a list of the ops that cannot be exported.
void convert_all(Graph& graph, ValueNames& values, const Trace& first, const Trace& second) {
  std::vector<std::string> refusals;
  for (std::size_t i = 0; i < first.ops.size(); ++i) try {
      convert(graph, values, first.ops[i], second.ops[i]);
    } catch (const Refusal& refusal) {
      if (refusal.reason.empty()) continue;  // its input comes from a refused op
      const std::string line = "\n  " + described(first.ops[i]) + ": " + refusal.reason;
      if (std::find(refusals.begin(), refusals.end(), line) == refusals.end()) refusals.push_back(line);
    }
  std::string lines;
  for (const std::string& line : refusals) lines += line;
  check<NotImplemented>(refusals.empty(), "onnx::save cannot export:", lines);
}

Description describe_value(const Graph& graph, const std::string& name, DType dtype, const Sizes& sizes) {
  Description to{name, dtype, {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t factor = graph.multiple_of_batch(sizes[i]);
    if (sizes[i].is_fixed())
      to.sizes.emplace_back(sizes[i].first);
    else if (factor == 1)
      to.sizes.emplace_back("batch");
    else
      to.sizes.emplace_back(name + "_size_" + std::to_string(i));
  }
  return to;
}

/// Adds the results. Each has a node of its own, because its name must be the given one.
void add_results(Graph& graph, ValueNames& values, const Trace& first, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int value = first.results[i];
    try {
      graph.set_prefix(names[i]);
      values.name(value);
    } catch (const Refusal& refusal) {
      fail<NotImplemented>("onnx::save: the result '", names[i], "' cannot be exported: ", refusal.reason);
    }
    graph.nodes.push_back({"Identity", names[i], {values.name(value)}, {names[i]}, {}});
    graph.outputs.push_back(describe_value(graph, names[i], values.dtype(value), values.sizes(value)));
  }
}

std::vector<std::string> result_names(const SaveOptions& options, std::size_t count) {
  std::vector<std::string> names = options.output_names;
  if (names.empty() && count == 1) names = {"output"};
  for (std::size_t i = 0; names.size() < count && options.output_names.empty(); ++i)
    names.push_back("output_" + std::to_string(i));
  check_names(names, count, "results");
  return names;
}

Graph graph_of(Trace& first, Trace& second, const NamedTensors& inputs, Size batch, const SaveOptions& options) {
  const std::vector<std::string> names = result_names(options, first.results.size());
  Graph graph(batch, inputs[0].first, options.batch_dim);
  ValueNames values(graph, first, second);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    graph.inputs.push_back(
        describe_value(graph, inputs[i].first, inputs[i].second.dtype(), values.sizes(static_cast<int>(i))));
  convert_all(graph, values, first, second);
  add_results(graph, values, first, names);
  return graph;
}

}  // namespace

void save(const std::string& path, nn::Module& net, const Function& function, const NamedTensors& inputs,
          const SaveOptions& options) {
  check_inputs(inputs, options);
  check_writable(path, "an ONNX model");
  const NamedTensors constants = constants_of(net);
  for (const auto& [name, x] : inputs) check_is_free(name, constants);
  for (const std::string& name : options.output_names) check_is_free(name, constants);
  const Evaluation evaluation(net);
  const NoGrad no_grad;
  const Autocast off(DType::f32);
  if (!options.dynamic_batch) {
    Trace only = trace(function, copies_of(inputs), constants);
    Trace same = only;
    remove_unused(only, same);
    return write_model(path, graph_of(only, same, inputs, 1, options), options.external_data);
  }
  // Ops see a size of 1 as a dim that broadcasts, so neither batch has it.
  const std::int64_t given = inputs[0].second.size(options.batch_dim), fewer = std::max<std::int64_t>(given, 2);
  const Size batch{fewer, fewer + 1};
  Trace first = trace(function, with_batch(inputs, batch.first, options.batch_dim), constants);
  Trace second = trace(function, with_batch(inputs, batch.second, options.batch_dim), constants);
  check_same_ops(first, second, batch);
  remove_unused(first, second);
  write_model(path, graph_of(first, second, inputs, batch, options), options.external_data);
}

void save(const std::string& path, nn::Module& net, const Tensor& example, const SaveOptions& options) {
  const auto forward = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{net(x[0])}; };
  check<ValueError>(options.input_names.size() <= 1, "onnx::save: expected one name of an input, got ",
                    options.input_names.size());
  save(path, net, forward, {{options.input_names.empty() ? "input" : options.input_names[0], example}}, options);
}

}  // namespace bytetape::onnx
