#include "bytetape/core/memory/replay.h"

#include <algorithm>

#include "bytetape/core/memory/holders.h"

namespace bytetape::memory {
namespace {

void change_entry(std::vector<RoleBytes>& table, std::vector<std::size_t>& most, NameId id, std::size_t role,
                  std::size_t change) {
  if (id >= table.size()) {
    table.resize(id + 1);
    most.resize(id + 1);
  }
  table[id][role] += change;
  most[id] = std::max(most[id], total(table[id]));
}

}  // namespace

void Replay::book(NameId module, NameId op, Role role, std::size_t change) {
  const auto r = static_cast<std::size_t>(role);
  by_role_[r] += change;
  change_entry(by_module_, most_by_module_, module, r, change);
  change_entry(by_op_, most_by_op_, op, r, change);
}

void Replay::apply(const Event& e) {
  switch (e.kind) {
    case EventKind::segment_alloc:
      reserved_ += e.bytes;
      break;
    case EventKind::segment_free:
      reserved_ -= e.bytes;
      break;
    case EventKind::alloc:
      allocated_ += e.bytes;
      requested_ += e.requested;
      book(e.module, e.op, e.role, e.bytes);
      break;
    case EventKind::free:
      allocated_ -= e.bytes;
      requested_ -= e.requested;
      book(e.module, e.op, e.role, -e.bytes);
      break;
    case EventKind::retag:
      book(e.old_module, e.op, e.old_role, -e.bytes);
      book(e.module, e.op, e.role, e.bytes);
      break;
    case EventKind::step_begin:
    case EventKind::step_end:
    case EventKind::out_of_memory:
    case EventKind::to_device:
    case EventKind::to_host:
    case EventKind::wait:
    case EventKind::hold:
    case EventKind::drop:
    case EventKind::argument:
    case EventKind::result:
      break;
  }
}

}  // namespace bytetape::memory
