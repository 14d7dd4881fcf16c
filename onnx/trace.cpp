#include "bytetape/onnx/trace.h"

#include <algorithm>
#include <map>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

using Key = std::vector<std::int64_t>;

/// Identifies the elements of a tensor: the storage, and which of its elements are where.
Key key_of(const Tensor& x) {
  Key key{reinterpret_cast<std::intptr_t>(&x.storage()), x.storage_offset(), static_cast<std::int64_t>(x.dtype())};
  key.insert(key.end(), x.shape().begin(), x.shape().end());
  key.insert(key.end(), x.strides().begin(), x.strides().end());
  return key;
}

/// The latest value of a tensor.
struct Entry {
  Tensor tensor;  // keeps the storage, so that its address is not used again
  int value = -1;
  std::uint32_t version = 0;  // of the storage
  int view_op = -1;           // the op that made the tensor as a view; -1 if none did
  std::size_t base_input = 0;
  Tensor base = {};  // what it is a view of
};

/// A view on the way from an overwritten tensor to the tensor that has its memory.
struct Link {
  Tensor base;
  int value_before, view_op;
};
struct Write {
  Tensor tensor;
  std::uint32_t version_before;
  std::vector<Link> links;
};

class Tracer final : public OpObserver {
 public:
  Tracer(const NamedTensors& inputs, const NamedTensors& constants) {
    for (const auto& [name, x] : inputs) {
      entries_[key_of(x)] = {x, add_value(x, TracedValue::Kind::input, name), x.storage().version()};
      is_constant_[&x.storage()] = false;
    }
    for (const auto& [name, x] : constants)
      if (x.defined()) names_.emplace(key_of(x), name), named_storages_.emplace(&x.storage(), name);
  }

  void begin(const OpCall& call) override {
    if (active_) return;
    if (!is_exported(call.definition.name)) return;
    active_ = &call;
    op_ = {&call.definition, call.attributes, {}, {}, memory::ambient.scope.module};
    if (converts_inputs(call)) op_.refusal = "it runs under Autocast, which converts its inputs; use to(x, dtype)";
    writes_.clear();
    for (const Operand& x : call.inputs) op_.inputs.push_back(argument(x));
    for (const std::string_view written : call.definition.writes) {
      const Tensor& x = call.inputs[index_of(call.definition, written)].tensor();
      if (!x.defined()) continue;
      check_not_named(call, x);
      writes_.push_back({x, x.storage().version(), links_above(x)});
    }
  }
  void end(const OpCall& call) noexcept override {
    if (&call == active_) {
      active_ = nullptr;
      if (!call.failed) finish(call);
    } else if (!active_ && !call.failed && call.kind != OpKind::composite) {
      op_ = {&call.definition, {}, {}, {}, memory::ambient.scope.module};
      op_.refusal = reason_against(call.definition.name);
      for (const Tensor& y : call.outputs) op_.outputs.push_back(set_value(y));
      trace.ops.push_back(op_);
    }
  }

  /// Returns the value that x has now.
  int value_of(const Tensor& x) {
    const auto found = entries_.find(key_of(x));
    if (found != entries_.end()) {
      if (found->second.version == x.storage().version()) return found->second.value;
      if (found->second.view_op >= 0) return viewed_again(found->second);
    }
    const auto known = is_constant_.find(&x.storage());
    if (known != is_constant_.end() && !known->second) return unknown(x);
    is_constant_[&x.storage()] = true;
    return entries_.insert_or_assign(key_of(x), Entry{x, add_constant(x), x.storage().version()}).first->second.value;
  }

  Trace trace;

 private:
  /// Whether Autocast may convert an input of the op. The conversion is a part of the op, which is not exported. f64 is
  /// not converted.
  static bool converts_inputs(const OpCall& call) {
    const AutocastClass rule = call.definition.autocast;
    if (!autocast_enabled() || rule == AutocastClass::keep) return false;
    std::vector<DType> dtypes;
    for (const Operand& x : call.inputs)
      if (!x.is_number() && x.tensor().defined() && is_floating(x.tensor().dtype()) && x.tensor().dtype() != DType::f64)
        dtypes.push_back(x.tensor().dtype());
    if (dtypes.empty()) return false;
    const DType kept = rule == AutocastClass::low   ? autocast_dtype()
                       : rule == AutocastClass::f32 ? DType::f32
                                                    : dtypes[0];
    return std::any_of(dtypes.begin(), dtypes.end(), [&](DType t) { return t != kept; });
  }
  /// Other ops with such a name, such as batch_norm, write to it in training only.
  void check_not_named(const OpCall& call, const Tensor& x) {
    const auto found = named_storages_.find(&x.storage());
    const bool is_safe = found == named_storages_.end() || !std::string_view(call.definition.name).ends_with('_');
    if (is_safe) return;
    active_ = nullptr;
    fail<NotImplemented>("onnx::save cannot export:\n  ", describe_op(call.definition, op_.module), ": it overwrites '",
                         found->second, "'");
  }
  static std::size_t index_of(const OpDefinition& op, std::string_view input) {
    std::size_t i = 0;
    while (op.inputs[i] != input) ++i;
    return i;
  }
  int add_value(const Tensor& x, TracedValue::Kind kind, const std::string& name = {}) {
    trace.values.push_back({x.shape(), x.dtype(), kind, {}, name});
    return static_cast<int>(trace.values.size()) - 1;
  }
  int add_constant(const Tensor& x) {
    const auto name = names_.find(key_of(x));
    const bool is_named = name != names_.end();
    const int value = add_value(x, TracedValue::Kind::constant, is_named ? name->second : std::string());
    trace.values.back().constant = is_named ? x : detail::copy_of(x);  // not an op, which would be traced
    return value;
  }
  /// Returns a new value of x.
  int set_value(const Tensor& x) {
    const int value = add_value(x, TracedValue::Kind::result);
    Entry& entry = entries_[key_of(x)];
    entry.tensor = x;
    entry.value = value;
    entry.version = x.storage().version();
    is_constant_[&x.storage()] = false;
    return value;
  }
  Argument argument(const Operand& x) {
    if (x.is_number()) return {-1, true, x.number()};
    return {x.tensor().defined() ? value_of(x.tensor()) : -1};
  }

  /// Runs the op that made a view once more, on the base's present value.
  int viewed_again(Entry& entry) {
    TracedOp again = trace.ops[static_cast<std::size_t>(entry.view_op)];
    again.inputs[entry.base_input] = {value_of(entry.base)};
    again.outputs = {add_value(entry.tensor, TracedValue::Kind::result)};
    entry.value = again.outputs[0];
    entry.version = entry.tensor.storage().version();
    trace.ops.push_back(std::move(again));
    return entry.value;
  }
  /// Returns a value for a tensor of which nobody knows the elements.
  int unknown(const Tensor& x) {
    static constexpr OpDefinition reading{.name = "(read)"};
    const int value = set_value(x);
    trace.ops.push_back({&reading,
                         {},
                         {},
                         {value},
                         memory::ambient.scope.module,
                         false,
                         "a tensor is read through memory that another op made or overwrote, and no op made the view"});
    return value;
  }

  std::vector<Link> links_above(const Tensor& x) {
    std::vector<Link> links;
    for (Tensor at = x;;) {
      value_of(at);
      const Entry& entry = entries_.at(key_of(at));
      if (entry.view_op < 0) return links;
      const Tensor base = entry.base;
      const int view_op = entry.view_op;
      links.push_back({base, value_of(base), view_op});
      at = base;
    }
  }
  /// Sets the values of the tensors of which `write.tensor`, whose new value is given, is a view.
  void update_bases(const Write& write, int value) {
    for (const Link& link : write.links) {
      TracedOp update = trace.ops[static_cast<std::size_t>(link.view_op)];
      update.updates_base = true;
      update.inputs = {{link.value_before}, {value}};
      update.outputs = {value = set_value(link.base)};
      trace.ops.push_back(std::move(update));
    }
  }

  void finish(const OpCall& call) {
    const std::size_t known = trace.values.size();
    std::vector<std::pair<const Write*, int>> written;
    for (const Write& w : writes_) {
      if (w.tensor.storage().version() == w.version_before) continue;
      if (is_constant_[&w.tensor.storage()])
        trace.overwritten.push_back({w.tensor, describe_op(call.definition, op_.module)});
      written.emplace_back(&w, set_value(w.tensor));
    }
    std::vector<std::pair<Tensor, std::size_t>> views;
    for (const Tensor& y : call.outputs) op_.outputs.push_back(value_of_output(call, y, views));
    for (const auto& [write, value] : written)
      if (std::find(op_.outputs.begin(), op_.outputs.end(), value) == op_.outputs.end()) op_.outputs.push_back(value);
    if (trace.values.size() == known) return;  // it returned its input
    trace.ops.push_back(op_);
    for (const auto& [y, input] : views) note_view(call, y, input);
    for (const auto& [write, value] : written) update_bases(*write, value);
  }
  int value_of_output(const OpCall& call, const Tensor& y, std::vector<std::pair<Tensor, std::size_t>>& views) {
    const auto found = entries_.find(key_of(y));
    if (found != entries_.end() && found->second.version == y.storage().version()) return found->second.value;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const Tensor& x = call.inputs[i].tensor();
      if (!x.defined() || &x.storage() != &y.storage()) continue;
      views.emplace_back(y, i);
      break;
    }
    const bool was_constant = !views.empty() && is_constant_[&y.storage()];
    const int value = set_value(y);
    is_constant_[&y.storage()] = was_constant;
    return value;
  }
  void note_view(const OpCall& call, const Tensor& y, std::size_t input) {
    Entry& entry = entries_.at(key_of(y));
    entry.view_op = static_cast<int>(trace.ops.size()) - 1;
    entry.base_input = input;
    entry.base = call.inputs[input].tensor();
  }

  std::map<Key, Entry> entries_;
  std::map<Key, std::string> names_;                      // of parameters and buffers
  std::map<const Storage*, std::string> named_storages_;  // the first name of each
  std::map<const Storage*, bool> is_constant_;            // of known storages: whether no traced op has written them
  const OpCall* active_ = nullptr;                        // the exported op that runs
  TracedOp op_;
  std::vector<Write> writes_;
};

}  // namespace

std::string describe_op(const OpDefinition& op, memory::NameId module) {
  const std::string path = memory::plain_path(module);
  return detail::concat("'", std::string_view(op.name), "'", path.empty() ? "" : " in '" + path + "'");
}

Trace trace(const Function& function, const NamedTensors& inputs, const NamedTensors& constants) {
  std::vector<Tensor> tensors;
  for (const auto& [name, x] : inputs) tensors.push_back(x);
  Tracer tracer(inputs, constants);
  const std::vector<Tensor> results = function(tensors);
  check<ValueError>(!results.empty(), "onnx::save: the function returns no tensor");
  for (const Tensor& y : results) {
    check<ValueError>(y.defined(), "onnx::save: a result of the function is undefined");
    tracer.trace.results.push_back(tracer.value_of(y));
  }
  return std::move(tracer.trace);
}

void remove_unused(Trace& first, Trace& second) {
  std::vector<bool> is_used(first.values.size(), false);
  for (const int result : first.results) is_used[static_cast<std::size_t>(result)] = true;
  std::vector<TracedOp> kept[2];
  for (std::size_t i = first.ops.size(); i-- > 0;) {
    const TracedOp& op = first.ops[i];
    const auto used = [&](int value) { return is_used[static_cast<std::size_t>(value)]; };
    if (std::none_of(op.outputs.begin(), op.outputs.end(), used)) continue;
    for (const Argument& x : op.inputs)
      if (x.value >= 0) is_used[static_cast<std::size_t>(x.value)] = true;
    kept[0].push_back(op);
    kept[1].push_back(second.ops[i]);
  }
  for (std::vector<TracedOp>& ops : kept) std::reverse(ops.begin(), ops.end());
  first.ops = std::move(kept[0]);
  second.ops = std::move(kept[1]);
}

}  // namespace bytetape::onnx
