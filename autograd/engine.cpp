#include "bytetape/autograd/engine.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "bytetape/autograd/anomaly.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

using memory::Op;
using memory::Phase;

/// What grad() wants to see on the way: gradients of chosen node outputs.
struct Captures {
  struct Slot {
    Edge edge;
    Tensor grad;
  };
  std::vector<Slot> slots;
  std::unordered_map<const Node*, bool> leads_to_one;  // nodes that do not are skipped

  bool wants(const Node* n) const {
    const auto it = leads_to_one.find(n);
    return it != leads_to_one.end() && it->second;
  }
};

/// One run of the tape in reverse. A consumer of a node's output was always recorded after it, so taking the highest
/// sequence number first meets every node after all of its consumers: no counting of dependencies.
class Backward {
 public:
  Backward(bool retain, bool create, Captures* captures) : retain_(retain), create_(create), captures_(captures) {}
  ~Backward() {
    for (const Ref<Node>& n : queue_) reset(*n);  // an exception may leave some behind
  }

  void add(const Edge& edge, Tensor g) {
    Node& node = *edge.node;
    if (captures_ && !captures_->wants(&node)) return;
    if (!node.queued) {
      node.queued = true;
      node.pending.resize(node.outputs.size());
      queue_.push_back(edge.node);
      std::push_heap(queue_.begin(), queue_.end(), later_first);
    }
    Tensor& sum = node.pending[edge.output];
    if (!sum.defined())
      sum = std::move(g);
    else if (!create_ && sum.ref()->use_count() == 1 && sum.storage().use_count() == 1 && !sum.impl()->is_view)
      add_(sum, g);
    else
      sum = sum + g;
  }

  void run() {
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), later_first);
      const Ref<Node> node = std::move(queue_.back());
      queue_.pop_back();
      step(*node);
    }
  }

 private:
  static bool later_first(const Ref<Node>& a, const Ref<Node>& b) { return a->sequence < b->sequence; }
  static void reset(Node& n) {
    n.queued = false;
    n.pending.clear();
  }

  void step(Node& node) {
    const memory::ScopeGuard scope({node.scope.module, node.scope.op, Phase::backward});
    Grads gy = std::move(node.pending);
    reset(node);
    for (const Node::Hook& h : node.hooks)
      if (gy[h.output].defined())
        if (Tensor replaced = h.call(gy[h.output]); replaced.defined()) gy[h.output] = replaced;
    if (captures_) capture(node, gy);
    check<AutogradError>(!node.released(),
                         "the graph was already freed by an earlier backward; pass retain_graph = true to that one");
    const bool is_leaf = node.edges.empty();
    if (captures_ && is_leaf) return;
    check<AutogradError>(!create_ || node.differentiable(),
                         "its backward is a fused rule that cannot be differentiated again (create_graph)");
    for (std::size_t i = 0; i < gy.size(); ++i)
      if (!gy[i].defined()) gy[i] = zeros(node.outputs[i].shape, node.outputs[i].dtype, node.outputs[i].device);
    Grads gx;
    gx.resize(node.edges.size());
    node.backward(gy, gx);
    gy.clear();
    if (detecting_anomaly())
      for (const Tensor& g : gx) throw_if_nan(g, "a gradient made by backward");
    const InlineVector<Edge, 3> edges = node.edges;
    if (!retain_ && !is_leaf) node.release();
    for (std::size_t i = 0; i < edges.size(); ++i)
      if (edges[i] && gx[i].defined()) add(edges[i], std::move(gx[i]));
  }

  void capture(const Node& node, const Grads& gy) {
    for (Captures::Slot& s : captures_->slots)
      if (s.edge.node.get() == &node) s.grad = gy[s.edge.output];
  }

  bool retain_, create_;
  Captures* captures_;
  std::vector<Ref<Node>> queue_;
};

Tensor seed_for(const Tensor& output, const Tensor& given) {
  check<AutogradError>(output.defined() && output.requires_grad(), "backward of ", describe(output),
                       ", which requires no grad");
  if (!given.defined()) {
    check<AutogradError>(output.numel() == 1, "backward of ", describe(output),
                         " needs a seed: only a one-element output has a default one");
    return ones_like(output);
  }
  check(given.shape() == output.shape(), "the seed, ", describe(given), ", must have the shape of the output, ",
        describe(output));
  check<DTypeError>(given.dtype() == output.dtype(), "the seed, ", describe(given), ", must have the dtype of ",
                    describe(output));
  check<DeviceError>(given.device() == output.device(), "the seed, ", describe(given), ", must be where ",
                     describe(output), " is");
  return given;
}

// Depth first without recursion: a node leads to a capture if it is one or any of its inputs does.
void find_needed(const Node* root, Captures& captures) {
  auto& done = captures.leads_to_one;
  std::vector<std::pair<const Node*, std::size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == 0) {
      if (done.contains(node) && stack.size() == 1) return;
      done.try_emplace(node, std::any_of(captures.slots.begin(), captures.slots.end(),
                                         [n = node](const auto& s) { return s.edge.node.get() == n; }));
    }
    if (next < node->edges.size()) {
      const Node* child = node->edges[next++].node.get();
      if (child && !done.contains(child)) stack.emplace_back(child, 0);
      continue;
    }
    for (const Edge& e : node->edges)
      if (e && done[e.node.get()]) done[node] = true;
    stack.pop_back();
  }
}

}  // namespace

void Tensor::backward(const Tensor& seed, bool retain_graph, bool create_graph) const {
  const Op<"backward"> op;
  const memory::PhaseScope phase(Phase::backward);
  const GradMode mode(create_graph);
  Backward run(retain_graph || create_graph, create_graph, nullptr);
  Tensor first = seed_for(*this, seed);
  run.add(gradient_edge(*this), std::move(first));
  run.run();
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  const Op<"grad"> op;
  const memory::PhaseScope phase(Phase::backward);
  const auto& seeds = options.seeds;
  check<ValueError>(seeds.empty() || seeds.size() == outputs.size(), seeds.size(), " seeds for ", outputs.size(),
                    " outputs");
  Captures captures;
  for (const Tensor& x : inputs) {
    check<AutogradError>(x.defined() && x.requires_grad(), "gradient asked of ", describe(x),
                         ", which requires no grad");
    captures.slots.push_back({gradient_edge(x), {}});
  }
  std::vector<Tensor> first;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    first.push_back(seed_for(outputs[i], seeds.empty() ? Tensor() : seeds[i]));
    find_needed(gradient_edge(outputs[i]).node.get(), captures);
  }
  const GradMode mode(options.create_graph);
  Backward run(options.retain_graph || options.create_graph, options.create_graph, &captures);
  for (std::size_t i = 0; i < outputs.size(); ++i) run.add(gradient_edge(outputs[i]), std::move(first[i]));
  run.run();
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check<AutogradError>(captures.slots[i].grad.defined() || options.allow_unused, "input ", i, ", ",
                         describe(inputs[i]), ", was not used for the outputs; pass allow_unused = true");
    result.push_back(captures.slots[i].grad);
  }
  return result;
}

}  // namespace bytetape
