#include "bytetape/core/memory/ledger/scope.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator/as_thread.h"
#include "bytetape/core/memory/ledger/root_path.h"
#include "bytetape/core/memory/ledger/thread_number.h"

namespace bytetape::memory {
namespace {

struct Names {
  std::mutex mutex;
  std::deque<std::string> by_id{""};  // a deque never moves its elements: name_of() hands out references
  std::unordered_map<std::string_view, NameId> by_name{{"", 0}};
};
Names& names() {
  static Names* n = new Names;  // outlives every static tensor
  return *n;
}

}  // namespace

NameId intern(std::string_view name) {
  Names& n = names();
  std::lock_guard lock(n.mutex);
  if (auto it = n.by_name.find(name); it != n.by_name.end()) return it->second;
  const auto id = static_cast<NameId>(n.by_id.size());
  n.by_name.emplace(n.by_id.emplace_back(name), id);
  return id;
}

const std::string& name_of(NameId id) {
  Names& n = names();
  std::lock_guard lock(n.mutex);
  return n.by_id.at(id);
}

NameId join_path(NameId parent, std::string_view child) {
  const std::string& above = name_of(parent);
  return above.empty() || is_root_path(above) ? intern(child) : intern(above + "." + std::string(child));
}

constexpr std::string_view root_prefix = "(root) ";
NameId root_path(std::string_view class_name) { return intern(std::string(root_prefix) + std::string(class_name)); }
bool is_root_path(std::string_view path) { return path.starts_with(root_prefix); }

NameId Scope::path_below_current(std::string_view name) {
  check<ValueError>(!name.empty(), "a memory::Scope needs a name");
  return join_path(ambient.scope.module, name);
}

std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> last{0};
  if (ambient.thread_number == 0) ambient.thread_number = ++last;
  return ambient.thread_number;
}

AsThread::AsThread(std::uint64_t number) : own_(thread_number()) { ambient.thread_number = number; }
AsThread::~AsThread() { ambient.thread_number = own_; }

const char* to_string(Role r) {
  constexpr const char* text[] = {"parameter", "autocast copy",      "gradient",         "optimizer state",
                                  "input",     "saved for backward", "output/temporary", "workspace"};
  return text[static_cast<int>(r)];
}

const char* to_string(Phase p) {
  constexpr const char* text[] = {"setup", "data", "forward", "backward", "optimizer"};
  return text[static_cast<int>(p)];
}

}  // namespace bytetape::memory

namespace bytetape::detail {

std::string where() {
  const memory::ScopeIds s = memory::ambient.scope;
  std::string text = memory::name_of(s.op);
  const std::string& module = memory::name_of(s.module);
  if (!module.empty() && !memory::is_root_path(module))
    text += (text.empty() ? "module '" : " in module '") + module + "'";
  return text;
}

}  // namespace bytetape::detail
