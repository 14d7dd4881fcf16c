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

/// The nodes that are found from what they saved, and who keeps each. Nothing of it may change meanwhile.
class KeptGraph {
 public:
  /// From the savers of `blocks`, and what made the tensors `known` (defined or not) and their gradients. A name is
  /// what chain() calls the tensor: "tensor 'loss'".
  KeptGraph(const std::vector<memory::Block>& blocks, const NamedTensors& known);

  /// Those that keep the storage, each once: they saved it, or collect the gradient of a leaf that has it.
  std::vector<const Node*> saved_refs(const Storage& s) const;
  /// What keeps a node, by the shortest way: " <- linear in net.fc2 <- tensor 'loss'".
  std::string chain(const Node* from) const;
  /// How many of a tensor's handles, and of the references to a storage, are nodes' and those of the tensors known.
  std::uint32_t handles_of(const TensorImpl* x) const;
  std::uint32_t references_to(const Storage& s) const;

 private:
  /// What is known of a node.
  struct Found {
    std::vector<const Node*> keepers;  // nodes that have a reference to it
    std::uint32_t references = 0;      // to it, of those and of known tensors
    std::string tensor;                // one of the known, which it made
  };

  void add(const Node* node);
  void add_saved(const Node& node);
  void add_reference(const Ref<Node>& node, const Node* keeper);
  void add_tensor(const Tensor& x, const Node* keeper, const std::string& name = "");
  bool is_held(const Node* node) const;
  std::string end_of(const Node* node) const;

  std::unordered_map<const Node*, Found> found_;
  std::vector<const Node*> waiting_;  // found, but not looked into
  std::unordered_map<const Storage*, std::vector<const Node*>> savers_;
  std::unordered_map<const TensorImpl*, std::uint32_t> handles_;          // how many were met
  std::unordered_map<const Storage*, std::uint32_t> storage_references_;  // likewise
};

/// "linear in net.fc1".
std::string place_of(memory::NameId op, memory::NameId module);

}  // namespace bytetape::detail
