#include "bytetape/core/memory/ledger/names.h"

#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace bytetape::memory {
namespace {

constexpr std::string_view root_name = "(root)", root_prefix = "(root) ";

struct Node {
  NameId parent = 0;
  std::string name, class_name;
  std::string words{};  // empty until somebody asks
  bool is_root() const { return parent == 0 && name == root_name && !class_name.empty(); }
};

class Nodes {
 public:
  const Node& operator[](NameId id) const { return nodes_.at(id); }

  NameId child(NameId parent, std::string_view name, std::string_view class_name) {
    if (nodes_.at(parent).is_root()) parent = 0;
    if (auto it = ids_.find({parent, name, class_name}); it != ids_.end()) return it->second;
    const auto id = static_cast<NameId>(nodes_.size());
    const Node& n = nodes_.emplace_back(Node{parent, std::string(name), std::string(class_name)});
    ids_.emplace(std::tuple(parent, std::string_view(n.name), std::string_view(n.class_name)), id);
    return id;
  }
  /// A child with a number for a name has its class behind it: "7 Linear".
  NameId child_in_words(NameId parent, std::string_view words) {
    const std::size_t end = words.find_first_not_of("0123456789");
    const bool has_class = end != 0 && end < words.size() - 1 && words[end] == ' ';
    return has_class ? child(parent, words.substr(0, end), words.substr(end + 1)) : child(parent, words, {});
  }
  const std::string& words(NameId id) {
    std::string& words = nodes_.at(id).words;
    if (id != 0 && words.empty()) words = text(id, true);  // others read the words of id 0 meanwhile
    return words;
  }
  std::string text(NameId id, bool with_classes) const {
    std::vector<const Node*> way;
    for (; id; id = way.back()->parent) way.push_back(&nodes_.at(id));
    std::string text;
    for (; !way.empty(); way.pop_back()) {
      const Node& n = *way.back();
      if (!text.empty()) text += '.';
      if (with_classes || !n.is_root()) text += n.name;
      if (with_classes && !n.class_name.empty()) text += ' ' + n.class_name;
    }
    return text;
  }

  std::mutex mutex;

 private:
  std::deque<Node> nodes_{Node{}};  // a deque never moves its elements, which ids_ and name_of() refer to
  std::map<std::tuple<NameId, std::string_view, std::string_view>, NameId> ids_{{{0, "", ""}, 0}};
};

Nodes& nodes() {
  static Nodes* all = new Nodes;  // outlives every static tensor
  return *all;
}

/// Calls f with the nodes, locked.
template <class F>
decltype(auto) locked(F f) {
  const std::lock_guard lock(nodes().mutex);
  return f(nodes());
}

}  // namespace

NameId intern(std::string_view words) { return join_path(0, words); }

const std::string& name_of(NameId id) {
  return locked([&](Nodes& all) -> const std::string& { return all.words(id); });
}

NameId child_path(NameId parent, std::string_view name, std::string_view class_name) {
  return locked([&](Nodes& all) { return all.child(parent, name, class_name); });
}

NameId join_path(NameId parent, std::string_view words) {
  return locked([&](Nodes& all) {
    const bool is_first = parent == 0 || all[parent].is_root();
    if (is_first && words.starts_with(root_prefix) && words.size() > root_prefix.size())
      return all.child(0, root_name, words.substr(root_prefix.size()));
    NameId path = parent;
    for (std::size_t dot; (dot = words.find('.', 1)) != words.npos; words.remove_prefix(dot + 1))
      path = all.child_in_words(path, words.substr(0, dot));
    return all.child_in_words(path, words);
  });
}

NameId root_path(std::string_view class_name) { return child_path(0, root_name, class_name); }

bool is_root_path(NameId path) {
  return locked([&](Nodes& all) { return all[path].is_root(); });
}

NameId parent_of(NameId path) {
  return locked([&](Nodes& all) { return all[path].parent; });
}

NameId with_parent(NameId path, NameId parent) {
  return locked([&](Nodes& all) { return all.child(parent, all[path].name, all[path].class_name); });
}

std::string plain_path(NameId path) {
  return locked([&](Nodes& all) { return all.text(path, false); });
}

bool is_within(std::string_view path, std::string_view module) {
  return path == module || (path.starts_with(module) && path[module.size()] == '.');
}

}  // namespace bytetape::memory
