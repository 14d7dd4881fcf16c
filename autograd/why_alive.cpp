#include "bytetape/autograd/why_alive.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "bytetape/autograd/kept_graph.h"
#include "bytetape/core/check.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/holders.h"

namespace bytetape {
namespace {

using detail::concat;
using detail::KeptGraph;
using detail::place_of;
using memory::Block;
using memory::Holding;
using memory::Role;

/// Returns, for example, "linear in net.fc2, which saved it <- cross_entropy <- tensor 'loss'".
std::string kept_by(const Node& node, const KeptGraph& graph) {
  const bool collects = dynamic_cast<const AccumulateGrad*>(&node) != nullptr;
  return place_of(node.scope.op, node.scope.module) +
         (collects ? ", which collects its gradient" : ", which saved it") + graph.chain(&node);
}

/// Returns, for example, "32.0 KiB, saved for backward, allocated by relu in fc1".
std::string booking_of(const Storage& s) {
  if (!s.is_ours()) return concat(memory::format_bytes(s.bytes()), ", on no books");
  const memory::ScopeIds owner = s.owner();
  return concat(memory::format_bytes(s.bytes()), ", ", to_string(s.role()), ", allocated by ",
                place_of(owner.op, owner.module));
}

/// Returns the blocks of a device, and the pinned host blocks to which its storages were evicted.
std::vector<Block> blocks_for(Device device) {
  std::vector<Block> blocks = memory::allocator(device).blocks();
  if (memory::PinnedMemory* pinned = memory::pinned_for(device))
    for (const Block& b : pinned->allocator().blocks()) blocks.push_back(b);
  return blocks;
}

/// Returns the owner of a tensor by its role, for a tensor that no known tensor holds. Empty if the role names no
/// owner.
std::string keeper_of_role(Role role, memory::NameId module) {
  const std::string whose = " of " + memory::display_name(module);
  if (role == Role::gradient) return "a leaf" + whose + ", as its gradient";
  if (role == Role::parameter) return "a parameter or a buffer" + whose;
  if (role == Role::autocast_copy) return "a parameter" + whose + ", as its copy in 16 bits";
  if (role == Role::optimizer_state) return "an optimizer";
  if (role == Role::key_value_cache) return "a KeyValueCache";
  if (role == Role::communication) return "a DataParallel, as a bucket of gradients";
  return "";
}

/// Renames 'loss' to "tensor 'loss'", and drops undefined tensors.
NamedTensors in_words(const NamedTensors& known) {
  NamedTensors words;
  for (const auto& [name, x] : known)
    if (x.defined()) words.emplace_back("tensor '" + name + "'", x);
  return words;
}

/// Builds the lines of why_alive() for one tensor.
class Reasons {
 public:
  Reasons(const Tensor& x, const NamedTensors& known)
      : x_(x), known_(in_words(known)), is_known_(std::any_of(known_.begin(), known_.end(), [&](const auto& named) {
          return named.second.is_same(x);
        })) {
    if (!is_known_) known_.emplace_back("this tensor", x);
  }

  std::string text() {
    const KeptGraph graph(blocks_for(x_.device()), known_);
    for (const Node* node : graph.saved_refs(x_.storage())) add(kept_by(*node, graph));
    add_known();
    add_others(graph);
    return concat(describe(x_), ", ", booking_of(x_.storage()), ", is kept by\n",
                  lines_.empty() ? "  this tensor alone\n" : lines_);
  }

 private:
  void add(const std::string& line) { lines_ += "  " + line + "\n"; }
  bool shares(const Tensor& t) const { return t.defined() && &t.storage() == &x_.storage(); }
  void add_known() {
    const Storage& s = x_.storage();
    bool named = false;
    for (const auto& [name, t] : known_) {
      if (shares(t) && (is_known_ || !t.is_same(x_))) add(name), named = true;
      if (shares(t.grad())) add(name + ", as its gradient"), named = true;
    }
    if (const std::string keeper = keeper_of_role(s.role(), s.module()); !named && !keeper.empty()) add(keeper);
  }
  void add_others(const KeptGraph& graph) {
    const Storage& s = x_.storage();
    add_count(s.use_count(), graph.references_to(s), "tensor that shares its bytes", "tensors that share its bytes");
    const std::uint32_t given = is_known_ ? 2 : 1;  // handles of the caller: x, and its entry in `known`
    if (x_.impl()->slots == 0)
      add_count(x_.ref()->use_count(), graph.handles_of(x_.impl()) + given, "handle of it", "handles of it");
  }
  void add_count(std::uint32_t all, std::uint32_t known, const char* one, const char* more) {
    if (all > known) add(concat(all - known, " other ", all - known == 1 ? one : more));
  }

  const Tensor& x_;
  NamedTensors known_;
  const bool is_known_;
  std::string lines_;
};

/// Counts the blocks of one row by their owner.
std::map<std::string, int> reasons_of(const Holding& row, const std::vector<Block>& blocks, const KeptGraph& graph) {
  std::map<std::string, int> reasons;
  for (const Block& b : blocks) {
    if (b.module != row.module || b.op != row.op || b.role != row.role) continue;
    const std::string keeper = keeper_of_role(row.role, row.module);
    if (b.saver)
      ++reasons[kept_by(*static_cast<const Node*>(b.saver), graph)];
    else
      ++reasons[keeper.empty() ? "tensors that the program holds, which no op saved" : keeper];
  }
  return reasons;
}

}  // namespace

std::string why_alive(const Tensor& x, const NamedTensors& known) {
  check_defined(x, "the tensor");
  return Reasons(x, known).text();
}

std::string why_alive(const memory::Difference& grown, const NamedTensors& known) {
  constexpr std::size_t rows_shown = 5, reasons_shown = 3;
  const std::vector<Block> blocks = memory::allocator(grown.device).blocks();
  const KeptGraph graph(blocks_for(grown.device), in_words(known));
  std::string text;
  for (std::size_t i = 0; i < std::min(rows_shown, grown.rows.size()) && grown.rows[i].bytes > 0; ++i) {
    const Holding& row = grown.rows[i];
    text += concat("+", memory::format_bytes(static_cast<std::size_t>(row.bytes)), ", ", to_string(row.role),
                   ", allocated by ", place_of(row.op, row.module), "; all such blocks are kept by\n");
    std::vector<std::pair<std::string, int>> reasons;
    for (const auto& r : reasons_of(row, blocks, graph)) reasons.push_back(r);
    std::stable_sort(reasons.begin(), reasons.end(), [](auto& a, auto& b) { return a.second > b.second; });
    for (std::size_t r = 0; r < std::min(reasons_shown, reasons.size()); ++r)
      text += concat("  ", reasons[r].second, " x ", reasons[r].first, "\n");
    if (reasons.size() > reasons_shown) text += concat("  ", reasons.size() - reasons_shown, " more\n");
  }
  return text;
}

}  // namespace bytetape
