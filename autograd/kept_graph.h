#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bytetape/autograd/node.h"
#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/named_tensors.h"

namespace bytetape::detail {

/// The nodes reachable from saved tensors, and the owners of each node. The graph must not change while it lives.
class KeptGraph {
 public:
  /// Starts from the nodes that saved `blocks`, and from the nodes that made the tensors `known` (undefined ones are
  /// skipped) and their gradients. chain() uses the names of `known`, as in "tensor 'loss'".
  KeptGraph(const std::vector<memory::Block>& blocks, const NamedTensors& known);

  /// Returns the nodes that keep the storage alive, each once. They saved it, or accumulate the gradient of its leaf.
  std::vector<const Node*> saved_refs(const Storage& s) const;
  /// Returns the shortest chain of owners of a node: " <- linear in net.fc2 <- tensor 'loss'".
  std::string chain(const Node* from) const;
  /// Returns the number of a tensor's handles, or of a storage's references, that nodes and `known` hold.
  std::uint32_t handles_of(const TensorImpl* x) const;
  std::uint32_t references_to(const Storage& s) const;

 private:
  /// The facts about one node.
  struct Found {
    std::vector<const Node*> keepers;  // nodes that refer to it
    std::uint32_t references = 0;      // to it, from those nodes and from known tensors
    std::string tensor;                // name of a known tensor that it made
  };

  void add(const Node* node);
  void add_saved(const Node& node);
  void add_reference(const Ref<Node>& node, const Node* keeper);
  void add_tensor(const Tensor& x, const Node* keeper, const std::string& name = "");
  bool is_held(const Node* node) const;
  std::string end_of(const Node* node) const;

  std::unordered_map<const Node*, Found> found_;
  std::vector<const Node*> waiting_;  // found, but not visited yet
  std::unordered_map<const Storage*, std::vector<const Node*>> savers_;
  std::unordered_map<const TensorImpl*, std::uint32_t> handles_;          // number found so far
  std::unordered_map<const Storage*, std::uint32_t> storage_references_;  // number found so far
};

/// Returns op and module in words: "linear in net.fc1".
std::string place_of(memory::NameId op, memory::NameId module);

}  // namespace bytetape::detail
