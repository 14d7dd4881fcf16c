#include "bytetape/autograd/engine.h"

#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "bytetape/autograd/anomaly.h"
#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/record.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/setting.h"

namespace bytetape {
namespace {

using memory::Phase;

/// The gradients of node outputs that grad() asks for. Without such gradients, backward accumulates into all leaves.
struct Captures {
  struct Slot {
    Tensor input;
    Edge edge;
    Tensor grad;
  };
  struct Place {
    bool itself = false;  // a slot asks for this node's gradient
    bool beyond = false;  // a slot asks for the gradient of a node that backward reaches from this one
    explicit operator bool() const { return itself || beyond; }
  };
  std::vector<Slot> slots;
  std::unordered_map<const Node*, Place> places;  // by node: all that backward can reach from the outputs

  Place at(const Node* n) const {
    const auto it = places.find(n);
    return it == places.end() ? Place{} : it->second;
  }
  void take(const Node& node, const Grads& gy) {
    for (Slot& s : slots)
      if (s.edge.node.get() == &node) s.grad = gy[s.edge.output];
  }
  std::vector<bool> unwanted_inputs(const Node& node) const {
    std::vector<bool> unwanted;
    for (const Edge& e : node.edges) unwanted.push_back(!at(e.node.get()));
    return unwanted;
  }
};

template <class... What>
void check_like(const Tensor& g, const Node::OutputInfo& like, DType dtype, const What&... what) {
  check<AutogradError>(g.shape() == like.shape && g.dtype() == dtype && g.device() == like.device, what...,
                       " gave the gradient ", describe(g), ", where ", like.dtype, like.shape, " on ", like.device,
                       " was due");
}

/// One run of the tape in reverse. A user of a node's output is recorded after the node. So taking the highest sequence
/// number first runs each node after all of its users, without counting dependencies. All state of the run is in this
/// object, so that a hook may start another run over the same graph.
class Backward : GradsSoFar {
 public:
  Backward(bool retain, bool create, Captures* captures) : retain_(retain), create_(create), captures_(captures) {}

  void add(const Edge& edge, Tensor g) {
    if (captures_ && !captures_->at(edge.node.get())) return;
    Waiting& waiting = waiting_at(edge);
    Tensor& sum = waiting.grads[edge.output];
    if (!sum.defined()) {
      sum = std::move(g);
      waiting.made_in = memory::ambient.scope;
    } else if (edge.output == 0 && !waiting.addend.defined() && takes_addend(*edge.node)) {
      waiting.addend = std::move(g);
    } else {
      if (waiting.is_low()) sum = waiting.widened();
      add_to(sum, to(g, sum.dtype()));
    }
  }

  void run() {
    const Autocast off(DType::f32);  // rules use the dtypes of forward
    const detail::Setting<detail::SavedWatch*> stays(detail::core_ambient.saved_watch,
                                                     nullptr);  // SaveOnCpu offloads tensors of forward only
    while (!queue_.empty()) {
      if (!low_.empty() && !queue_.begin()->second.node->hooks_to_run().empty()) {
        pass_on_low();  // the hook may read the gradients of all leaves so far
        continue;
      }
      auto next = queue_.extract(queue_.begin());
      step(next.mapped());
    }
    pass_on_low();
  }

 private:
  /// A node for which gradients have arrived.
  struct Waiting {
    Ref<Node> node;
    Grads grads;
    Tensor addend;
    memory::ScopeIds made_in;  // the scope in which the last of grads was computed

    const Node::OutputInfo& due() const { return node->outputs[0]; }
    /// Whether the gradient of a leaf has 16 bits and must be widened to the leaf's dtype.
    bool is_low() const { return grads[0].defined() && grads[0].dtype() != due().dtype; }
    /// Returns an uninitialised tensor for the widened gradient.
    Tensor empty_wide() const {
      const memory::ScopeGuard scope(made_in);
      return empty_like(grads[0], due().dtype);
    }
    /// Returns the widened gradient.
    Tensor widened() const {
      const memory::ScopeGuard scope(made_in);
      return to(grads[0], due().dtype);
    }
  };

  Waiting& waiting_at(const Edge& edge) {
    Waiting& waiting = queue_[edge.node->sequence];
    if (!waiting.node) {
      waiting.node = edge.node;
      waiting.grads.resize(edge.node->outputs.size());
    }
    return waiting;
  }

  /// Returns the gradient that waits on an edge, and removes it, because the rule's result replaces it. If none waits,
  /// returns the gradient of a leaf from an earlier backward, except to grad().
  GradSoFar take(const Edge& edge, Operands operands) override {
    if (create_ || detecting_anomaly()) return {};
    const auto at = queue_.find(edge.node->sequence);
    if (at != queue_.end() && at->second.grads[edge.output].defined()) {
      Waiting& waiting = at->second;
      Tensor& sum = waiting.grads[edge.output];
      const bool is_usable = !waiting.addend.defined() && sum.is_contiguous() && is_sole_owner(sum) &&
                             sum.dtype() == edge.node->outputs[edge.output].dtype;
      return is_usable ? GradSoFar{.grad = std::exchange(sum, Tensor())} : GradSoFar{};
    }
    auto* const leaf = captures_ ? nullptr : dynamic_cast<AccumulateGrad*>(edge.node.get());
    return leaf ? leaf->so_far(operands) : GradSoFar{};
  }

  /// Whether the rule gets both summands. Hooks, create_graph and a grad() of the node's output need their sum.
  bool takes_addend(const Node& node) const {
    return !create_ && !(captures_ && captures_->at(&node).itself) && node.hooks_to_run().empty() &&
           node.takes_addend();
  }
  void add_to(Tensor& sum, const Tensor& g) const {
    if (!create_ && is_sole_owner(sum))
      add_(sum, g);
    else
      sum = sum + g;
  }

  bool widens_leaves() const { return !create_ && !captures_ && !detecting_anomaly(); }
  /// Keeps a 16-bit gradient of a leaf to be widened later. All kept ones are on one device, because one launch widens
  /// them.
  void keep_low(Waiting waiting) {
    if (!low_.empty() && low_.front().due().device != waiting.due().device) pass_on_low();
    low_.push_back(std::move(waiting));
  }
  static bool goes_to_sink(const Node& node) {
    const auto* const leaf = dynamic_cast<const AccumulateGrad*>(&node);
    return leaf && leaf->goes_to_sink();
  }
  /// Widens all kept gradients in one launch, and runs their accumulators.
  void pass_on_low() {
    if (low_.empty()) return;
    std::vector<Tensor> wide;
    for (const Waiting& w : low_) wide.push_back(w.empty_wide());
    std::vector<ConstView> from;
    std::vector<View> to;
    for (std::size_t i = 0; i < low_.size(); ++i) {
      from.push_back(low_[i].grads[0].read());
      to.push_back(wide[i].write());
    }
    bytetape::run<&CopyKernels::widen_all>(low_.front().due().device, from, to);
    for (std::size_t i = 0; i < low_.size(); ++i) low_[i].grads[0] = std::move(wide[i]);
    for (Waiting& w : std::exchange(low_, {})) step(w);
  }

  void step(Waiting& waiting) {
    if (waiting.is_low() && !goes_to_sink(*waiting.node)) return keep_low(std::move(waiting));
    Node& node = *waiting.node;
    Grads& gy = waiting.grads;
    const memory::ScopeGuard scope({node.scope.module, node.scope.op, Phase::backward, node.scope.stream});
    if (waiting.addend.defined() && !takes_addend(node)) add_to(gy[0], std::exchange(waiting.addend, Tensor()));
    run_hooks(node, gy);
    if (captures_) {
      const Captures::Place place = captures_->at(&node);
      if (place.itself) captures_->take(node, gy);
      if (!place.beyond) return;
    }
    check<AutogradError>(!node.released(),
                         "the graph was already freed by an earlier backward; pass retain_graph = true to that one");
    check<AutogradError>(!create_ || node.differentiable(),
                         "its backward is a fused rule that cannot be differentiated again (create_graph)");
    if (!node.takes_undefined()) fill_in_zeros(node, gy);
    InputGrads gx(node, captures_ ? captures_->unwanted_inputs(node) : std::vector<bool>(), retain_, widens_leaves(),
                  std::move(waiting.addend), this);
    node.backward(gy, gx);
    gy.clear();
    pass_on(node, gx);
  }

  static void fill_in_zeros(const Node& node, Grads& gy) {
    for (std::size_t i = 0; i < gy.size(); ++i)
      if (!gy[i].defined()) gy[i] = zeros(node.outputs[i].shape, node.outputs[i].dtype, node.outputs[i].device);
  }

  static void run_hooks(const Node& node, Grads& gy) {
    if (node.hooks_to_run().empty()) return;
    const std::vector<Node::Hook> hooks = node.hooks_to_run();  // a hook may remove itself
    for (const Node::Hook& h : hooks)
      if (gy[h.output].defined())
        if (Tensor replaced = h.call(gy[h.output]); replaced.defined()) {
          check_like(replaced, node.outputs[h.output], node.outputs[h.output].dtype, "a hook");
          gy[h.output] = std::move(replaced);
        }
  }

  void pass_on(Node& node, InputGrads& gx) {
    InlineVector<Edge, 3> freed;
    const bool frees = !retain_ && !node.edges.empty();  // the accumulator of a leaf has no edges and stays
    if (frees) {
      freed = std::move(node.edges);
      node.release();  // frees saved tensors before sums are allocated
    }
    const InlineVector<Edge, 3>& edges = frees ? freed : node.edges;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i] || !gx[i].defined()) continue;
      check_like(gx[i], edges[i].node->outputs[edges[i].output], dtype_for(edges[i], gx[i]), "its backward, for input ",
                 i, ",");
      if (detecting_anomaly()) throw_if_nan(gx[i], "a gradient made by backward");
      if (gx.is_in_leaf(i))
        waiting_at(edges[i]);  // for the accumulator's post hooks; there is nothing to add
      else
        add(edges[i], std::move(gx[i]));
    }
  }

  /// Returns the dtype that g must have on the edge: that of the output, or 16 bits if g is widened later.
  DType dtype_for(const Edge& edge, const Tensor& g) const {
    const DType due = edge.node->outputs[edge.output].dtype;
    if (size_of(g.dtype()) != 2) return due;
    const bool stays_low = widens_leaves() && edge.node->takes_low() && is_dense(g.shape(), g.strides());
    return stays_low ? g.dtype() : due;
  }

  const bool retain_, create_;
  Captures* const captures_;
  std::map<std::uint64_t, Waiting, std::greater<>> queue_;  // by sequence number
  std::vector<Waiting> low_;                                // nodes of leaves whose gradients must be widened
};

Tensor seed_for(const Tensor& output, const Tensor& given) {
  check<AutogradError>(output.defined() && output.requires_grad(), describe(output),
                       " requires no grad: no op on the tape made it from a tensor that does (set_requires_grad(), and "
                       "no NoGrad around the forward)");
  detail::check_view(output);
  if (!given.defined()) {
    check<AutogradError>(output.numel() == 1, describe(output),
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

// Fills in the places of all nodes behind `root`. Depth first, without recursion.
void find_places(const Node* root, Captures& captures) {
  auto& places = captures.places;
  std::vector<std::pair<const Node*, std::size_t>> stack;
  const auto visit = [&](const Node* node) {
    if (!places.try_emplace(node).second) return;
    const auto* const leaf = node->edges.empty() ? dynamic_cast<const AccumulateGrad*>(node) : nullptr;
    for (const Captures::Slot& s : captures.slots) {
      if (s.edge.node.get() == node) places[node].itself = true;
      if (leaf && leaf->leaf().is_same(s.input)) leaf->check_leaf();  // else the input would count as unused
    }
    check<AutogradError>(!node->released() || places[node].itself,
                         "the graph was already freed by an earlier backward; pass retain_graph = true to that one");
    stack.emplace_back(node, 0);
  };
  visit(root);
  while (!stack.empty()) {
    const Node* node = stack.back().first;
    if (stack.back().second < node->edges.size()) {
      const Edge& edge = node->edges[stack.back().second++];
      if (edge) visit(edge.node.get());
      continue;
    }
    for (const Edge& e : node->edges)
      if (captures.at(e.node.get())) places[node].beyond = true;
    stack.pop_back();
  }
}

// Returns a gradient that shares no memory with a seed, an input or another gradient, so that the caller may write it.
Tensor hand_over(Captures& captures, std::size_t i, const Tensor& input) {
  Tensor g = std::exchange(captures.slots[i].grad, Tensor());
  if (g.defined()) return is_sole_owner(g) ? g : clone(g);
  return captures.places.contains(captures.slots[i].edge.node.get()) ? zeros_like(input) : g;
}

}  // namespace

namespace detail {

/// Calls what at_end_of_backward() was given.
class BackwardEnd {
 public:
  ~BackwardEnd() { run(false); }
  void add(std::function<void(bool)> f) { functions_.push_back(std::move(f)); }
  /// Rethrows the first exception of a function. Functions that get false must not throw.
  void run(bool has_succeeded) {
    while (next_ < functions_.size()) std::exchange(functions_[next_++], nullptr)(has_succeeded);
  }

 private:
  std::vector<std::function<void(bool)>> functions_;
  std::size_t next_ = 0;
};

}  // namespace detail

void at_end_of_backward(std::function<void(bool)> f) {
  check<AutogradError>(detail::autograd_ambient.backward_end, "at_end_of_backward: no backward() runs on this thread");
  detail::autograd_ambient.backward_end->add(std::move(f));
}

void Tensor::backward(const Tensor& seed, bool retain_graph, bool create_graph) const {
  const memory::Op<"backward"> op;
  const memory::PhaseScope phase(Phase::backward);
  const GradMode mode(create_graph);
  Backward run(retain_graph || create_graph, create_graph, nullptr);
  Tensor first = seed_for(*this, seed);
  run.add(gradient_edge(*this), std::move(first));
  detail::BackwardEnd end;
  const detail::Setting<detail::BackwardEnd*> collecting(detail::autograd_ambient.backward_end, &end);
  run.run();
  end.run(true);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  const memory::Op<"grad"> op;
  const memory::PhaseScope phase(Phase::backward);
  const auto& seeds = options.seeds;
  check<ValueError>(seeds.empty() || seeds.size() == outputs.size(), seeds.size(), " seeds for ", outputs.size(),
                    " outputs");
  Captures captures;
  for (const Tensor& x : inputs) {
    check<AutogradError>(x.defined() && x.requires_grad(), "gradient asked of ", describe(x),
                         ", which requires no grad");
    captures.slots.push_back({x, gradient_edge(x), {}});
  }
  std::vector<Tensor> first;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    first.push_back(seed_for(outputs[i], seeds.empty() ? Tensor() : seeds[i]));
    find_places(gradient_edge(outputs[i]).node.get(), captures);
  }
  const GradMode mode(options.create_graph);
  Backward run(options.retain_graph || options.create_graph, options.create_graph, &captures);
  for (std::size_t i = 0; i < outputs.size(); ++i) run.add(gradient_edge(outputs[i]), std::move(first[i]));
  run.run();
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    result.push_back(hand_over(captures, i, inputs[i]));
    check<AutogradError>(result[i].defined() || options.allow_unused, "input ", i, ", ", describe(inputs[i]),
                         ", was not used for the outputs; pass allow_unused = true");
  }
  return result;
}

}  // namespace bytetape
