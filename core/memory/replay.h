#pragma once
#include <cstddef>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// The books recomputed from the log: apply a snapshot's events one by one to see who held the bytes at any of them.
/// Exact where the log is whole: nothing dropped, and nothing held when it was last reset.
class Replay {
 public:
  void apply(const Event& e);

  std::size_t allocated() const { return allocated_; }
  std::size_t requested() const { return requested_; }
  std::size_t reserved() const { return reserved_; }
  const RoleBytes& by_role() const { return by_role_; }
  /// Indexed by NameId; shorter than the name table where later names hold nothing.
  const std::vector<RoleBytes>& by_module() const { return by_module_; }
  const std::vector<RoleBytes>& by_op() const { return by_op_; }
  /// The most that each held at once so far; indexed alike.
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
