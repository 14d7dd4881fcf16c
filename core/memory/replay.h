#pragma once
#include <cstddef>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// A ledger's totals recomputed from its log: apply a snapshot's events one by one to see who held the bytes after
/// each. Exact if the log is whole: no events were dropped, and nothing was held when it was last reset.
class Replay {
 public:
  void apply(const Event& e);

  std::size_t allocated() const { return allocated_; }
  std::size_t requested() const { return requested_; }
  std::size_t reserved() const { return reserved_; }
  const RoleBytes& by_role() const { return by_role_; }
  /// Indexed by NameId. Shorter than the name table if the last names hold nothing.
  const std::vector<RoleBytes>& by_module() const { return by_module_; }
  const std::vector<RoleBytes>& by_op() const { return by_op_; }
  /// The most bytes that each name held at once so far. Indexed likewise.
  const std::vector<std::size_t>& most_by_module() const { return most_by_module_; }
  const std::vector<std::size_t>& most_by_op() const { return most_by_op_; }

 private:
  void book(NameId module, NameId op, Role role, std::size_t change);

  std::size_t allocated_ = 0, requested_ = 0, reserved_ = 0;
  RoleBytes by_role_{};
  std::vector<RoleBytes> by_module_, by_op_;
  std::vector<std::size_t> most_by_module_, most_by_op_;
};

}  // namespace bytetape::memory
