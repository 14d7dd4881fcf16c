#include "bytetape/core/memory/ledger/scope.h"

#include <atomic>
#include <new>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator/as_thread.h"
#include "bytetape/core/memory/ledger/host_wait.h"
#include "bytetape/core/memory/ledger/thread_number.h"

namespace bytetape::memory {

NameId Scope::path_below_current(std::string_view name) {
  check<ValueError>(!name.empty(), "a memory::Scope needs a name");
  return join_path(ambient.scope.module, name);
}

bool HostWait::note(bool begins) noexcept {
  try {
    static const NameId name = intern(host_wait_name);
    const ScopeIds& scope = ambient.scope;
    note_scope(scope, scope.with(scope.module, name, scope.phase), begins);
    return true;
  } catch (const std::bad_alloc&) { return false; }  // the recording lacks the wait, and the program goes on
}

std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> last{0};
  if (ambient.thread_number == 0) ambient.thread_number = ++last;
  return ambient.thread_number;
}

AsThread::AsThread(std::uint64_t number) : own_(thread_number()) { ambient.thread_number = number; }
AsThread::~AsThread() { ambient.thread_number = own_; }

const char* to_string(Role r) {
  constexpr const char* text[] = {"parameter",       "autocast copy",      "gradient",         "optimizer state",
                                  "input",           "saved for backward", "output/temporary", "workspace",
                                  "key-value cache", "communication"};
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
  if (s.module && !memory::is_root_path(s.module))
    text += (text.empty() ? "module '" : " in module '") + memory::name_of(s.module) + "'";
  return text;
}

}  // namespace bytetape::detail
