// Converts traces, op by op.
#include "bytetape/onnx/export_graph.h"

#include <algorithm>
#include <set>

#include "bytetape/core/memory/report/utf8.h"
#include "bytetape/onnx/conversion.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

std::string described(const TracedOp& op) { return describe_op(*op.definition, op.module); }

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
    check<NotImplemented>(is_same,
                          "onnx::save: the ops that run depend on the batch size, or differ between two runs: op ", i,
                          " is ", described(a), " for a batch of ", batch.first, ", and ", described(b), " for ",
                          batch.second, ", or has other inputs; set dynamic_batch to false");
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

/// Throws NotImplemented if both runs overwrote the same tensor: the next run would read what this one wrote.
void check_keeps_no_state(const Trace& first, const Trace& second) {
  for (const Overwritten& a : first.overwritten)
    for (const Overwritten& b : second.overwritten)
      check<NotImplemented>(&a.tensor.storage() != &b.tensor.storage(), "onnx::save cannot export:\n  ", a.description,
                            ": it overwrites a tensor that outlives the function, ", describe(a.tensor),
                            "; make the tensor an input, and return the new one");
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

}  // namespace

void check_names(const std::vector<std::string>& names, std::size_t count, const char* what) {
  check<ValueError>(names.size() == count, "onnx::save: expected ", count, " names of ", what, ", got ", names.size());
  std::set<std::string> seen;
  for (const std::string& name : names) {
    check<ValueError>(!name.empty() && seen.insert(name).second, "onnx::save: the name '", name, "' of ", what,
                      " is empty or repeated");
    check<ValueError>(memory::utf8(name) == name, "onnx::save: the name '", memory::utf8(name), "' of ", what,
                      " is not UTF-8");
  }
}

/// Throws ValueError if a name given by the user is that of another value.
static void check_names_of(const Graph& graph) {
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    check<ValueError>(seen.insert(name).second, "onnx::save: the name '", name,
                      "' of an input, a result, a parameter or a buffer is also that of another value");
  };
  for (const Description& x : graph.inputs) add(x.name);
  for (const auto& [name, x] : graph.initializers) add(name);
  for (const Node& node : graph.nodes)
    for (const std::string& name : node.outputs) add(name);
}

bool has_batch(const std::string& name, const SaveOptions& options) {
  const std::vector<std::string>& without = options.unbatched_inputs;
  return options.dynamic_batch && std::find(without.begin(), without.end(), name) == without.end();
}

const std::pair<std::string, Tensor>& first_batched(const NamedTensors& inputs, const SaveOptions& options) {
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const auto& input) { return has_batch(input.first, options); });
  return found == inputs.end() ? inputs[0] : *found;
}

Graph graph_of(Trace first, Trace second, const NamedTensors& inputs, Size batch, const SaveOptions& options) {
  check_keeps_no_state(first, second);
  check_same_ops(first, second, batch);
  remove_unused(first, second);
  const std::vector<std::string> names = result_names(options, first.results.size());
  Graph graph(batch, first_batched(inputs, options).first, options.batch_dim);
  ValueNames values(graph, first, second);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    graph.inputs.push_back(
        describe_value(graph, inputs[i].first, inputs[i].second.dtype(), values.sizes(static_cast<int>(i))));
  convert_all(graph, values, first, second);
  add_results(graph, values, first, names);
  check_names_of(graph);
  return graph;
}

}  // namespace bytetape::onnx
