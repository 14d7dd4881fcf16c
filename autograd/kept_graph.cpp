#include "bytetape/autograd/kept_graph.h"

#include <algorithm>
#include <deque>

namespace bytetape::detail {

using memory::Block;
using memory::name_of;
using memory::NameId;

std::string place_of(NameId op, NameId module) {
  const std::string what = op ? name_of(op) : "an op";
  return module ? what + " in " + name_of(module) : what;
}

KeptGraph::KeptGraph(const std::vector<Block>& blocks, const NamedTensors& known) {
  for (const auto& [name, x] : known) {
    if (!x.defined()) continue;
    add_tensor(x, nullptr, name);
    if (const Tensor g = x.grad(); g.defined()) add_tensor(g, nullptr, "the gradient of " + name);
  }
  for (const Block& b : blocks)
    if (b.saver) add(static_cast<const Node*>(b.saver));
  while (!waiting_.empty()) {
    const Node* node = waiting_.back();
    waiting_.pop_back();
    for (const Edge& e : node->edges) add_reference(e.node, node);
    add_saved(*node);
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) {
      add_tensor(leaf->leaf(), node);
      savers_[&leaf->leaf().storage()].push_back(node);
    }
  }
}

void KeptGraph::add(const Node* node) {
  if (found_.try_emplace(node).second) waiting_.push_back(node);
}

void KeptGraph::add_reference(const Ref<Node>& node, const Node* keeper) {
  if (!node) return;
  add(node.get());
  Found& f = found_.at(node.get());
  ++f.references;
  if (keeper) f.keepers.push_back(keeper);
}

void KeptGraph::add_saved(const Node& node) {
  for (const Saved* s = node.saved_; s; s = s->next_) {
    add_reference(s->maker_, &node);
    add_reference(s->placeholder_, &node);
    if (!s->tensor_.defined()) continue;
    add_tensor(s->tensor_, &node);
    ++storage_references_[s->storage_.get()];
    auto& savers = savers_[s->storage_.get()];
    if (std::find(savers.begin(), savers.end(), &node) == savers.end()) savers.push_back(&node);
  }
}

// All handles of a tensor share one TensorImpl, which refers once to its node and once to its storage.
void KeptGraph::add_tensor(const Tensor& x, const Node* keeper, const std::string& name) {
  const AutogradMeta* meta = autograd_meta_if_any(x);
  const Ref<Node> maker = meta ? meta->made_by.node : Ref<Node>();
  if (handles_[x.impl()]++ == 0) {
    ++storage_references_[&x.storage()];
    add_reference(maker, keeper);
  }
  if (maker && !name.empty()) found_.at(maker.get()).tensor = name;
}

std::vector<const Node*> KeptGraph::saved_refs(const Storage& s) const {
  const auto at = savers_.find(&s);
  return at == savers_.end() ? std::vector<const Node*>() : at->second;
}

std::uint32_t KeptGraph::handles_of(const TensorImpl* x) const {
  const auto at = handles_.find(x);
  return at == handles_.end() ? 0 : at->second;
}

std::uint32_t KeptGraph::references_to(const Storage& s) const {
  const auto at = storage_references_.find(&s);
  return at == storage_references_.end() ? 0 : at->second;
}

/// Whether a tensor holds the node, not only other nodes.
bool KeptGraph::is_held(const Node* node) const {
  const Found& f = found_.at(node);
  return !f.tensor.empty() || node->use_count() > f.references;
}

std::string KeptGraph::end_of(const Node* node) const {
  if (!is_held(node)) return "a circle of these";
  const std::string& name = found_.at(node).tensor;
  if (!name.empty()) return name;
  if (node->outputs.empty()) return "the program";
  const Node::OutputInfo& result = node->outputs[0];  // a node that saves nothing can only be found through its result
  return concat("the program, by a result ", result.dtype, result.shape, " or what was made of it");
}

std::string KeptGraph::chain(const Node* from) const {
  std::unordered_map<const Node*, const Node*> came_from{{from, nullptr}};
  std::deque<const Node*> next{from};
  const Node* end = from;
  while (!next.empty()) {
    end = next.front();
    next.pop_front();
    if (is_held(end)) break;
    for (const Node* keeper : found_.at(end).keepers)
      if (came_from.try_emplace(keeper, end).second) next.push_back(keeper);
  }
  std::vector<const Node*> way;
  for (const Node* n = end; n != from; n = came_from.at(n)) way.insert(way.begin(), n);
  constexpr std::size_t shown = 2;  // shown at each end of a long chain
  std::string text;
  for (std::size_t i = 0; i < way.size(); ++i) {
    if (way.size() > 2 * shown + 1 && i == shown) {
      text += concat(" <- ", way.size() - 2 * shown, " more");
      i = way.size() - shown;
    }
    text += " <- " + place_of(way[i]->scope.op, way[i]->scope.module);
  }
  return text + " <- " + end_of(end);
}

}  // namespace bytetape::detail
