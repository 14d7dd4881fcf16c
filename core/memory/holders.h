#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// Bytes that one name (a module path or an op) holds in one role.
struct Holder {
  std::size_t bytes = 0;
  NameId name = 0;
  Role role = Role::temporary;
};

/// Returns the holders of more than 0 bytes, the largest first; ties by name, then role. `table` is indexed by NameId.
std::vector<Holder> holders_of(const std::vector<RoleBytes>& table);
/// The sum over all roles of one name.
std::size_t total(const RoleBytes& bytes);
/// The name of a module, or "(outside modules)".
std::string display_name(NameId module);

}  // namespace bytetape::memory
