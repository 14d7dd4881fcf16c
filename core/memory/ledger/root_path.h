#pragma once
#include <string_view>

#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::memory {

/// What the ledger calls a module that has no parent, for the ops that it runs itself: "(root) Net". Paths of its
/// children do not begin with it: join_path() leaves it out.
NameId root_path(std::string_view class_name);
bool is_root_path(std::string_view path);

}  // namespace bytetape::memory
