#pragma once
#include <string_view>

#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::memory {

/// Returns the ledger's name for a module without a parent, such as "(root) Net". It holds the ops that the module runs
/// itself. Paths of its children do not begin with it, because join_path() leaves it out.
NameId root_path(std::string_view class_name);
bool is_root_path(std::string_view path);

}  // namespace bytetape::memory
